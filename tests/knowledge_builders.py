"""Builders of what the knowledge service stores, with overrides."""

from __future__ import annotations

from typing import Any

from knowledge_client.models import EpisodeIn, FactIn, RunIn, Source
from knowledge_service.domain import facts
from knowledge_service.domain.access_control import ScopeRange, View
from knowledge_service.domain.facts import NewFact
from knowledge_service.domain.run_reports import RunKey
from knowledge_service.ports import Actor

TEAM = "realm:demo/formation:team"
LEAD = f"{TEAM}/cell:lead-0"
OTHER = "realm:other/formation:team"
AGENT = Actor("demo/lead-0", "agent")
PERSON = Actor("ada", "human")
OPERATOR = Actor("operator", "system")
ALL = View("platform", (ScopeRange("platform", subtree=True),))


def new_fact(content: str = "the build needs Java 21", scope: str = TEAM, **fields: Any) -> NewFact:
    confidence = fields.pop("confidence", 0.5)
    source = fields.pop("source", Source(type="user_input", actor="ada"))
    body = FactIn(content=content, **fields)
    return facts.new_fact(body, scope=scope, source=source, confidence=confidence)


def run_key(run_id: str, realm: str = "realm:demo") -> RunKey:
    return RunKey(realm, run_id)


def run_in(**fields: Any) -> RunIn:
    return RunIn(**{"namespace": "demo", "scope": TEAM, "blueprint": "review", **fields})


def episode(content: str = "looked at the pods", **fields: Any) -> EpisodeIn:
    return EpisodeIn(**{"type": "message", "content": content, **fields})
