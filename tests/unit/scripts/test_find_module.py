"""Every module has a summary, and terms of the field find the right ones."""

from __future__ import annotations

import functools
import re

import pytest

from scripts import find_module, rename_map

PRODUCT = tuple(
    folder
    for folder in rename_map.SOURCE_FOLDERS
    if folder not in ("examples", "bench", "e2e", "tests")
)

TERMS = {
    # What a stranger searched for and did not find under the earlier names.
    "rate limit": "rate_limit",
    "token bucket": "token_bucket",
    "pagination": "pagination",
    "prompt injection": "prompt_injection",
    "query expansion": "expansion",
    "synonyms": "lexicon|thesaurus|synonym",
    "inverted index": "postings",
    "near-duplicate": "near_duplicate",
    "informer": "informer/",
    "relist": "relist",
    "debounce": "debounce",
    "event predicates": "predicates",
    "event mapping": "reconcile_requests",
    "leader election": "lease_lock",
    "event sourcing": "event_log",
    "projection": "projections",
    "hash chain": "hash_chain",
    "backup": "backup",
    "WAL checkpoint": "wal_checkpoint",
    "idempotency key": "idempotency|dependencies",
    "authentication": "authentication",
    "authorization": "authorization",
    "retention": "retention",
    "background worker": "workers/background",
    "background job": "workers/background",
    "injection of knowledge": "knowledge_injection",
    "embedding": "embeddings",
    "server-sent events": "event_stream",
    "dry run": "dry_run",
    "request limits": "http_limits|request_limits",
    "concurrency limit": "concurrency_limit",
    # From the glossary of Kubernetes.
    "downward API": "environment",
    "QoS class": "base_pod_spec",
    "resource quota": "attempt_pods",
    "token filter": "text/analyser",
    "admission controller": "admission",
    "ConfigMap": "outbox",
    "controller": "controllers/",
    "CustomResourceDefinition": "kais/crds",
    "finalizer": "finalizer|ledger|knowledge_scope",
    "garbage collection": "revision_gc",
    "health check": "probes",
    "Helm chart": "kais_cluster/charts",
    "Lease": "lease_lock",
    "label selector": "kais/labels",
    "network policy": "networkpolicy",
    "owner references": "children",
    "etcd learner": "",
    "crash loop": "pod_diagnosis",
    "RBAC": "rbac|permissions",
    "reconciliation": "reconciler",
    "affinity": "pod_template",
    "eviction": "attempt_pods",
    "image pull policy": "pod_template",
    "init container": "job_manifest",
    "liveness probe": "probes",
    "preemption": "pod_template",
    "resourceVersion": "informer/cache",
    "rolling update": "service_workload_manifests",
    "security context": "base_pod_spec|pod_template",
    "sidecar": "pod_template",
    "taint": "pod_template",
    "termination grace period": "pod_template",
    "server-side apply": "managed_fields",
    "ServiceAccount": "service_account",
    "watch": "watches",
    "workload": "service_workload",
    # From the glossary of Lucene and its neighbours.
    "analyzer": "analyser",
    "BM25 similarity": "bm25",
    "boost": "ranking",
    "codec": "segment_codec",
    "deleted documents": "segment",
    "index writer": "write_queue",
    "inverse document frequency": "bm25",
    "merge policy": "merge_policy",
    "nearest neighbors": "embeddings",
    "norms": "segment|bm25",
    "posting list": "postings/posting_lists",
    "query parser": "query/parser",
    "rerank": "ranking",
    "searcher": "pipeline",
    "segment": "segment",
    "stemming": "analyser",
    "stop words": "thesaurus|english",
    "tokenizer": "analyser",
}


@functools.cache
def _corpus() -> tuple[tuple[find_module.Module, ...], list[find_module.GlossaryEntry]]:
    entries = list(find_module.glossary(find_module.GLOSSARY.read_text()))
    return find_module.modules(), entries


def test_every_module_of_the_product_has_a_summary() -> None:
    summarised = {module.path for module in find_module.modules(PRODUCT)}
    existing = {
        str(path)
        for path in rename_map.source_paths(find_module.ROOT, PRODUCT)
        if (find_module.ROOT / path).read_text().strip()
    }
    assert existing - summarised == set()


@pytest.mark.parametrize("term", [term for term, path in TERMS.items() if path])
def test_a_term_of_the_field_finds_its_module_among_the_first_five(term: str) -> None:
    matches = find_module.find(term, *_corpus())

    paths = [match.path for match in matches[:5]]
    assert any(re.search(TERMS[term], path) for path in paths), paths


@pytest.mark.parametrize("term", [term for term, path in TERMS.items() if not path])
def test_a_term_that_kais_has_no_part_for_finds_nothing(term: str) -> None:
    assert find_module.find(term, *_corpus()) == []


@pytest.mark.parametrize(
    ("term", "reason"),
    {
        "resync": "not used, kais relists",
        "feature gate": "nearest are the settings of an installation",
        "skip list": "the posting list of a term is decoded whole, and cached",
    }.items(),
)
def test_a_term_without_a_module_of_its_own_finds_its_row_of_the_glossary(
    term: str, reason: str
) -> None:
    match = find_module.find(term, *_corpus())[0]

    assert match.path == ""
    assert "not used" in match.reason
    assert match.reason.endswith(reason)


def test_a_word_that_the_glossary_replaces_finds_the_modules_of_the_term() -> None:
    text = "| debounce | hold back | `a/debounce.py`, `b/` | first words |\n"

    matches = find_module.find("first word", [], list(find_module.glossary(text)))

    reason = "debounce: hold back"
    assert matches == [find_module.Match("a/debounce.py", reason), find_module.Match("b/", reason)]


def test_glossary_terms_come_before_paths_and_paths_before_summaries() -> None:
    modules = [
        find_module.Module("a/other.py", "Limits the rate."),
        find_module.Module("a/rate_limit.py", "Counts calls."),
    ]
    entries = [find_module.GlossaryEntry("rate limit", "calls a minute", ("a/bucket.py",), "")]

    paths = [match.path for match in find_module.find("rate limits", modules, entries)]

    assert paths == ["a/bucket.py", "a/rate_limit.py", "a/other.py"]


def test_the_command_prints_paths_with_reasons_and_fails_without_a_match(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert find_module.main(["scripts", "soak"]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert re.match(r"scripts/soak\.py +Run the long versions of the tests", line)

    assert find_module.main(["quantum", "annealing"]) == 1
    assert capsys.readouterr() == ("", "nothing matches: quantum annealing\n")
