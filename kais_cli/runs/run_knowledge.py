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
    """Fetch the facts that the cells stored, and those that were extracted."""
    run_id, namespace = mission.status.run_id, mission.metadata.namespace
    if run_id is None:
        return ()
    remembered = _remembered(client, run_id, namespace=namespace)
    extracted = _extracted(client, run_id, namespace=namespace)
    return _facts(client, dict.fromkeys((*remembered, *extracted)))


def _remembered(client: KnowledgeClient, run_id: str, *, namespace: str) -> tuple[str, ...]:
    try:
        return client.get_run(run_id, namespace=namespace).remembered
    except errors.NotFound:  # the ledger has no record of the run yet
        return ()


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
