"""Who calls the service in these tests, by what rights, and how one of them is refused."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from knowledge_client import AsyncKnowledgeClient, errors
from knowledge_client.models import FactIn, Grant, PrincipalIn, Quota, Subject
from knowledge_service.domain.access_control import PLATFORM
from knowledge_service.domain.principals import ALL_VERBS, Principal, administrator
from tests.knowledge_builders import LEAD, OTHER, TEAM

Connect = Callable[[str], AsyncKnowledgeClient]
OPERATOR = {"Authorization": "Bearer operator"}
PEER = LEAD.replace("lead-0", "lead-1")


def _cell(name: str, home: str) -> Principal:
    grants = (
        Grant(scope=home, verbs=("read", "write")),
        Grant(scope=TEAM, verbs=("read", "remember")),
    )
    return Principal(name, "agent", home, grants, subject=name, memory=TEAM)


_REMEMBERS = (Grant(scope=TEAM, verbs=("read", "remember")),)

CALLERS = {
    "operator": administrator("operator", "system"),
    "lead": Principal("demo/lead-0", "agent", LEAD),
    "peer": Principal("demo/lead-1", "agent", PEER),
    "team": Principal("demo/shared", "agent", TEAM, (Grant(scope=TEAM, verbs=("read", "write")),)),
    "limited": Principal(
        "demo/limited", "agent", f"{TEAM}/cell:limited", quota=Quota(writes_per_minute=3)
    ),
    "telling": Principal("demo/telling", "agent", LEAD, quota=Quota(facts_per_minute=3)),
    "reading": Principal("demo/reading", "agent", LEAD, quota=Quota(reads_per_minute=3)),
    "asking": Principal("demo/asking", "agent", LEAD, quota=Quota(recalls_per_minute=3)),
    "storing": Principal("demo/storing", "agent", LEAD, quota=Quota(bytes_per_minute=100_000)),
    # Cells as the operator registers them: they remember in the scope of their Formation.
    "first use": _cell("demo/team-a1-lead-0", LEAD),
    "next use": _cell("demo/team-b2-lead-0", LEAD),
    "teammate": _cell("demo/team-a1-lead-1", PEER),
    "sharing": Principal(
        "demo/both", "agent", TEAM, (Grant(scope=TEAM, verbs=("read", "remember")),)
    ),
    # A person and a cell elsewhere that happen to be called as `lead` is.
    "namesake": Principal("demo/lead-0", "human", LEAD),
    "double": Principal("demo/lead-0", "agent", f"{OTHER}/cell:x"),
    "watcher": Principal("watcher", "human", "realm:other", (Grant(scope=LEAD, verbs=("read",)),)),
    "auditor": Principal("auditor", "human", "realm:other", (Grant(scope=LEAD, verbs=("admin",)),)),
    "eraser": Principal("eraser", "human", "realm:other", (Grant(scope=TEAM, verbs=("admin",)),)),
    "corrector": Principal(
        "corrector", "human", "realm:other", (Grant(scope=TEAM, verbs=("read", "write")),)
    ),
    "gardener": Principal(
        "gardener", "human", TEAM, (Grant(scope=TEAM, subtree=True, verbs=ALL_VERBS),)
    ),
    "mover": Principal(
        "mover", "human", "realm:other", (Grant(scope=LEAD, verbs=("read", "promote")),)
    ),
    # Administers the realm itself and may read what is below.
    "warden": Principal(
        "warden",
        "human",
        "realm:demo",
        (
            Grant(scope="realm:demo", verbs=("admin",)),
            Grant(scope="realm:demo", subtree=True, verbs=("read",)),
        ),
    ),
    "stranger": Principal("other/x", "agent", f"{OTHER}/cell:x"),
    "ada": Principal(
        "ada",
        "human",
        "realm:demo",
        (Grant(scope="realm:demo", subtree=True, verbs=("read", "write")),),
    ),
    # People with own logins: the platform is the home of each.
    "bea": Principal("bea", "human", PLATFORM, _REMEMBERS, writes_at_home=False),
    "cem": Principal("cem", "human", PLATFORM, _REMEMBERS, writes_at_home=False),
    "keeper": Principal(
        "keeper",
        "human",
        "realm:demo",
        (Grant(scope="realm:demo", subtree=True, verbs=ALL_VERBS),),
    ),
}


async def told(client: AsyncKnowledgeClient, content: str, scope: str | None = None) -> str:
    """Tell a fact, at home unless a scope is named; return its id."""
    return (await client.remember(FactIn(content=content, scope=scope))).fact_id


async def refused(call: object, code: str) -> str:
    """Expect a refusal with that code; return its words."""
    with pytest.raises(errors.KnowledgeError) as caught:
        await call  # type: ignore[misc]
    assert caught.value.code == code, caught.value
    assert caught.value.problem is not None
    return caught.value.problem.detail


def registration(home: str = LEAD, *grants: Grant) -> PrincipalIn:
    """Make what the operator says of the account of `lead`, or of one at home elsewhere."""
    subject = Subject(username="system:serviceaccount:demo:lead-0", uid="u-1")
    return PrincipalIn(name="demo/lead-0", type="agent", subject=subject, home=home, grants=grants)
