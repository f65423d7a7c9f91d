"""The schema's history.

Migrations are numbered and append-only. Each commits together with its own record in `migration`.

A migration is never edited once released. A new column is the next `mNNN_*`.
"""

from __future__ import annotations

from knowledge_service.migrations import (
    m001_initial,
    m002_projections,
    m003_segments,
    m004_graph,
    m005_vectors,
    m006_link_ends,
    m007_outcomes,
    m008_equality,
    m009_run_realms,
    m010_tombstones,
    m011_visible,
    m012_erased_scopes,
    m013_named_answers,
    m014_event_scopes,
    m015_log_by_scope,
    m016_default_scopes,
    m017_cell_addresses,
    m018_revisions,
    m019_substrings,
    m020_extraction_models,
    m021_schema_equality,
    m022_withheld_runs,
    m023_facets,
    m024_stored_responses,
    m025_outcome_totals,
    m026_stray_vectors,
    m027_runs_of_agents,
)

SQLITE: tuple[tuple[int, str, str], ...] = (
    (1, "m001_initial", m001_initial.SQLITE),
    (2, "m002_projections", m002_projections.SQLITE),
    (3, "m003_segments", m003_segments.SQLITE),
    (4, "m004_graph", m004_graph.SQLITE),
    (5, "m005_vectors", m005_vectors.SQLITE),
    (6, "m006_link_ends", m006_link_ends.SQLITE),
    (7, "m007_outcomes", m007_outcomes.SQLITE),
    (8, "m008_equality", m008_equality.SQLITE),
    (9, "m009_run_realms", m009_run_realms.SQLITE),
    (10, "m010_tombstones", m010_tombstones.SQLITE),
    (11, "m011_visible", m011_visible.SQLITE),
    (12, "m012_erased_scopes", m012_erased_scopes.SQLITE),
    (13, "m013_named_answers", m013_named_answers.SQLITE),
    (14, "m014_event_scopes", m014_event_scopes.SQLITE),
    (15, "m015_log_by_scope", m015_log_by_scope.SQLITE),
    (16, "m016_default_scopes", m016_default_scopes.SQLITE),
    (17, "m017_cell_addresses", m017_cell_addresses.SQLITE),
    (18, "m018_revisions", m018_revisions.SQLITE),
    (19, "m019_substrings", m019_substrings.SQLITE),
    (20, "m020_extraction_models", m020_extraction_models.SQLITE),
    (21, "m021_schema_equality", m021_schema_equality.SQLITE),
    (22, "m022_withheld_runs", m022_withheld_runs.SQLITE),
    (23, "m023_facets", m023_facets.SQLITE),
    (24, "m024_stored_responses", m024_stored_responses.SQLITE),
    (25, "m025_outcome_totals", m025_outcome_totals.SQLITE),
    (26, "m026_stray_vectors", m026_stray_vectors.SQLITE),
    (27, "m027_runs_of_agents", m027_runs_of_agents.SQLITE),
)
"""(number, name, script) in order; the runner is the store's."""
