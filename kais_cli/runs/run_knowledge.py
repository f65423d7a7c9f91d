"""Fetches the facts that a run recalled and stored."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from knowledge_client import errors

if TYPE_CHECKING:
    from kais.resources.mission import Mission
    from knowledge_client import KnowledgeClient
    from knowledge_client.models import Fact

_LOOKED_AT = 100  # newest remembered facts; they include those of a run that just ended


@dataclass(frozen=True)
class Learning:
    """The facts that a run recalled and those that it stored, newest first."""

    receipt: str | None = None
    recalled: tuple[Fact, ...] = ()
    learnt: tuple[Fact, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return it as a JSON tree."""
        return {
            "receipt": self.receipt,
            "recalled": [_short(fact) for fact in self.recalled],
            "learnt": [_short(fact) for fact in self.learnt],
        }


def _short(fact: Fact) -> dict[str, Any]:
    return fact.model_dump(
        mode="json", include={"id", "scope", "kind", "content", "confidence", "source"}
    )


def of_mission(client: KnowledgeClient, mission: Mission) -> Learning:
    """Ask for the facts of a mission's run; a fact that is gone or hidden is left out."""
    used = mission.status.knowledge
    receipt = used.receipt if used else None
    recalled = client.get_receipt(receipt).facts if receipt else ()
    return Learning(receipt, _facts(client, recalled), _learnt(client, mission))


def _learnt(client: KnowledgeClient, mission: Mission) -> tuple[Fact, ...]:
    run_id = mission.status.run_id
    if run_id is None:
        return ()
    namespace = mission.metadata.namespace
    marks = {("run", run_id), ("mission", f"{namespace}/{mission.metadata.name}")}
    recent = client.list_facts(source="explicit_remember", limit=_LOOKED_AT).facts
    # Another realm may have a run of this id.
    roots = ("platform/", f"realm:{namespace}/")
    near = [fact for fact in recent if f"{fact.scope}/".startswith(roots)]
    remembered = [f for f in near if marks & {(ref.type, ref.id) for ref in f.source.refs}]
    known = {fact.id for fact in remembered}
    extracted = _extracted(client, run_id, namespace=namespace)
    return (*remembered, *_facts(client, [i for i in extracted if i not in known]))


def _extracted(client: KnowledgeClient, run_id: str, *, namespace: str) -> tuple[str, ...]:
    try:
        return client.get_extraction(run_id, namespace=namespace).facts
    except errors.NotFound:  # nothing was asked for
        return ()


def _facts(client: KnowledgeClient, ids: Iterable[str]) -> tuple[Fact, ...]:
    found = []
    for fact_id in ids:
        try:
            found.append(client.get_fact(fact_id))
        except errors.NotFound:
            continue
    return tuple(found)
