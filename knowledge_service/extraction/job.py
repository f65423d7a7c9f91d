"""One extraction, from the episodes of a run to its stored facts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from knowledge_client.models import ExtractionConfig, Fact, Ref, Run, Source
from knowledge_service.domain import episode_parsing, extraction
from knowledge_service.domain.access_control import EVERYTHING
from knowledge_service.domain.facts import NewFact, merge_refs
from knowledge_service.errors import NotFound
from knowledge_service.ports import Actor, Listing

if TYPE_CHECKING:
    from knowledge_client.models import Extraction
    from knowledge_service.domain.run_reports import RunKey
    from knowledge_service.ports import Store

ACTOR = Actor("kais-extraction", "system", for_agents=True)

# A run that has just ended has few facts, and they are among the newest.
_MAX_LISTED_FACTS = 500


def run_extraction(store: Store, key: RunKey) -> Extraction:
    """Read the episodes, extract facts and store them; the outcome of the run stays unchanged.

    Raises:
        NotFound: the run no longer exists, for example after its realm was recreated.
    """
    store.begin_extraction(key)
    mission_run = store.run(key, EVERYTHING)
    if mission_run is None:
        raise NotFound(f"run {key.run_id} is gone; there is nothing to extract from")
    config = store.scope_configs([mission_run.scope]).get(mission_run.scope)
    settings = config.extraction if config else ExtractionConfig()
    if not settings.enabled:
        reason = f"extraction is switched off in {mission_run.scope}"
        return store.finish_extraction(key, (), reason, actor=ACTOR)
    if config and config.read_only:
        reason = f"{mission_run.scope} is read-only"
        return store.finish_extraction(key, (), reason, actor=ACTOR)
    episodes = store.episodes(key)
    earlier = store.earlier_signatures(key, episode_parsing.error_signatures(episodes))
    limit = min(store.extraction_limit(key), settings.max_facts)
    remembered = _facts_of_run(store, mission_run)
    outcome = extraction.extract(mission_run, episodes, earlier, remembered=remembered, limit=limit)
    facts = [_to_new_fact(mission_run, fact) for fact in outcome.facts]
    return store.finish_extraction(key, facts, outcome.reason, actor=ACTOR)


def _facts_of_run(store: Store, run: Run) -> list[Fact]:
    """Return the facts that the run itself remembered in its scope."""
    newest = store.list_facts(
        Listing(EVERYTHING, _MAX_LISTED_FACTS, scopes=(run.scope,), lifecycle="live")
    )
    return [
        fact
        for fact in newest
        if fact.source.type != "mission_extraction"
        and any(ref.type == "run" and ref.id == run.run_id for ref in fact.source.refs)
    ]


def _to_new_fact(run: Run, fact: extraction.ExtractedFact) -> NewFact:
    run_refs: tuple[Ref, ...] = (Ref(type="run", id=run.run_id),)
    if run.mission:
        run_refs = (Ref(type="mission", id=f"{run.namespace}/{run.mission}"), *run_refs)
    episodes = tuple(Ref(type="episode", id=f"{run.run_id}/{seq}") for seq in fact.episodes)
    return NewFact(
        scope=run.scope,
        kind=fact.kind,
        content=fact.content,
        title=fact.title,
        subject=fact.subject,
        predicate=fact.predicate,
        tags=fact.tags,
        confidence=fact.confidence,
        source=Source(
            type="mission_extraction", refs=merge_refs(run_refs, episodes), actor=ACTOR.name
        ),
        session=run.run_id,
        quoted=fact.quoted,
    )
