"""Compatibility routes: `/remember`, `/recall` and `/correct` with the bodies of older clients."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Response
from pydantic import Field

from kais import scopes
from knowledge_client import base_model
from knowledge_client.base_model import Reason, UtcDatetime, WireModel, WireScope
from knowledge_client.models import (
    CorrectIn,
    FactIn,
    RecalledFact,
    RecallIn,
    Source,
)
from knowledge_client.models.facts import Tag
from knowledge_service.routes.dependencies import (
    CallerDep,
    KeyHeader,
    OffloadDep,
    ServicesDep,
)
from knowledge_service.routes.endpoint import LenientEndpoint
from knowledge_service.use_cases import authorization, fact_lifecycle, idempotency
from knowledge_service.use_cases import recall as recall_use_case
from knowledge_service.use_cases import remember as remember_use_case

router = APIRouter(tags=["reference"], route_class=LenientEndpoint)


class RecallBody(WireModel):
    """A recall as older clients send it. `graph_id` is a scope path, or ignored."""

    query: str = Field(max_length=8192)
    scope: WireScope | str | None = None
    max_results: int = Field(default=20, ge=1, le=100)
    min_confidence: float = Field(default=0.0, ge=0, le=1)
    include_invalidated: bool = False


class RememberBody(WireModel):
    """A fact as older clients send it."""

    content: str = Field(min_length=1, max_length=8192)
    scope: WireScope | str | None = None
    source: Source | None = None
    confidence: float = Field(default=0.5, ge=0, le=1)
    tags: tuple[Tag, ...] = Field(default=(), max_length=32)


class CorrectBody(WireModel):
    """A correction as older clients send it; `replacement` is an addition."""

    fact_id: str
    reason: Reason
    replacement: str | None = Field(default=None, min_length=1, max_length=8192)


class ReferenceFact(RecalledFact):
    """A recalled fact as older clients read it, with all other fields of a fact.

    `scope` is `{level, realm_id?, formation_id?, cell_id?}`. `source` names the mission or the
    experiment beside its references. `valid_from` defaults to the time of recording.
    """

    scope: dict[str, str]  # type: ignore[assignment]
    source: dict[str, Any]  # type: ignore[assignment]
    valid_from: UtcDatetime


def to_reference_fact(fact: RecalledFact) -> ReferenceFact:
    """Convert a recalled fact to the response of older clients."""
    source = fact.source.model_dump(mode="json")
    for ref in reversed(fact.source.refs):  # reversed, so that the first reference of a type wins
        if ref.type in ("mission", "experiment"):
            source[f"{ref.type}_id"] = ref.id
    return base_model.construct_unchecked(
        ReferenceFact,
        {
            **fact.__dict__,
            "scope": scopes.Scope.parse(fact.scope).to_wire(),
            "source": source,
            "valid_from": fact.valid_from or fact.recorded_at,
        },
    )


def to_fact_in(body: RememberBody) -> FactIn:
    """Convert the body of an older client."""
    return FactIn(
        content=body.content,
        scope=body.scope,
        source=body.source,
        confidence=body.confidence,
        tags=body.tags,
    )


@router.post("/recall")
def recall(
    body: RecallBody, services: ServicesDep, principal: CallerDep, response: Response
) -> list[ReferenceFact]:
    """Return visible facts of the scope and the scopes above it."""
    scope = body.scope
    paths = () if scope is None else authorization.authorize_read_lineage(scope, principal)
    question = RecallIn(
        query=body.query,
        limit=body.max_results,
        min_confidence=body.min_confidence,
        scopes=paths,
        include_closed=body.include_invalidated,
    )
    now = services.now()
    answer = recall_use_case.recall(
        services.store, principal, question, now=now, idempotency_key=None
    )
    if answer.receipt:
        response.headers["Kais-Receipt"] = answer.receipt
    return [to_reference_fact(fact) for fact in answer.facts]


@router.post("/remember")
async def remember(
    body: RememberBody, offload: OffloadDep, key: KeyHeader = None
) -> dict[str, str]:
    """Remember a fact."""
    stored = await remember_use_case.remember_one(offload, to_fact_in(body), key)
    return {"factId": stored.fact_id}


@router.post("/correct")
def correct(
    body: CorrectBody, services: ServicesDep, principal: CallerDep, key: KeyHeader = None
) -> dict[str, str]:
    """Close a fact; 404 for an unknown id."""
    correction = CorrectIn(reason=body.reason, replacement=body.replacement)
    repeat = idempotency.bind_key(key, principal, "correct", body)
    fact_lifecycle.correct(services.store, principal, body.fact_id, correction, repeat)
    return {"status": "ok"}
