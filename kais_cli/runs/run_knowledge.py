"""Fetches the facts that a run recalled and stored."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kais_cli.views import model_trees
from knowledge_client import errors

if TYPE_CHECKING:
    from kais.resources.mission import Mission
    from knowledge_client import KnowledgeClient
    from knowledge_client.models import Fact

_SUMMARY_FIELDS = ("id", "scope", "kind", "content", "confidence", "source")
_RECENT_FACTS = 100  # newest remembered facts; they include those of a run that just ended


@dataclass(frozen=True)
class RunKnowledge:
    """The facts that a run recalled and those that it stored, newest first."""

    receipt: str | None = None
    recalled: tuple[Fact, ...] = ()
    learnt: tuple[Fact, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return it as a JSON tree."""
        return {
            "receipt": self.receipt,
            "recalled": [_fact_summary(fact) for fact in self.recalled],
            "learnt": [_fact_summary(fact) for fact in self.learnt],
        }


def _fact_summary(fact: Fact) -> dict[str, Any]:
    tree: dict[str, Any] = model_trees.to_tree(fact)
    return {name: tree[name] for name in _SUMMARY_FIELDS}


def fetch_run_knowledge(client: KnowledgeClient, mission: Mission) -> RunKnowledge:
    """Fetch the facts of a mission's run; missing and hidden facts are omitted."""
    mission_knowledge = mission.status.knowledge
    receipt = mission_knowledge.receipt if mission_knowledge else None
    recalled = client.get_receipt(receipt).facts if receipt else ()
    return RunKnowledge(receipt, _facts(client, recalled), _stored_by_run(client, mission))


def _stored_by_run(client: KnowledgeClient, mission: Mission) -> tuple[Fact, ...]:
    run_id = mission.status.run_id
    if run_id is None:
        return ()
    namespace = mission.metadata.namespace
    run_references = {("run", run_id), ("mission", f"{namespace}/{mission.metadata.name}")}
    recent = client.list_facts(source="explicit_remember", limit=_RECENT_FACTS).facts
    # The run id may also exist in another realm.
    roots = ("platform/", f"realm:{namespace}/")
    visible_facts = [fact for fact in recent if f"{fact.scope}/".startswith(roots)]
    remembered = [
        f for f in visible_facts if run_references & {(ref.type, ref.id) for ref in f.source.refs}
    ]
    remembered_ids = {fact.id for fact in remembered}
    extracted = _extracted(client, run_id, namespace=namespace)
    return (*remembered, *_facts(client, [i for i in extracted if i not in remembered_ids]))


def _extracted(client: KnowledgeClient, run_id: str, *, namespace: str) -> tuple[str, ...]:
    try:
        return client.get_extraction(run_id, namespace=namespace).facts
    except errors.NotFound:  # nothing was asked for
        return ()


def _facts(client: KnowledgeClient, ids: Iterable[str]) -> tuple[Fact, ...]:
    facts = []
    for fact_id in ids:
        try:
            facts.append(client.get_fact(fact_id))
        except errors.NotFound:
            continue
    return tuple(facts)
