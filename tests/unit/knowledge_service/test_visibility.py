from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowledge_client.models import Grant
from knowledge_service.domain import access_control, principals
from knowledge_service.domain.access_control import ScopeRange, View
from knowledge_service.domain.principals import Principal
from tests.knowledge_builders import LEAD, OTHER, TEAM

PATHS = [LEAD, TEAM, "realm:demo", "platform", OTHER, f"{TEAM}/cell:lead-1", "realm:demo2"]


def test_lineage_is_nearest_first_and_ends_at_the_platform() -> None:
    assert access_control.lineage(LEAD) == (LEAD, TEAM, "realm:demo", "platform")
    assert access_control.lineage("platform") == ("platform",)


def test_realm_with_a_longer_name_is_not_inside() -> None:
    assert not access_control.contains("realm:demo", "realm:demo2")
    assert not access_control.contains("realm:demo", "realm:demo2/formation:x")


@given(st.sampled_from(PATHS), st.sampled_from(PATHS))
def test_view_without_grants_is_the_own_path(home: str, path: str) -> None:
    assert View(home).can_read(path) == (path in access_control.lineage(home))


@pytest.mark.parametrize(
    ("reach", "path", "seen"),
    [
        (ScopeRange("realm:other", subtree=False), "realm:other", True),
        (ScopeRange("realm:other", subtree=False), OTHER, False),
        (ScopeRange("realm:other", subtree=True), OTHER, True),
        (ScopeRange("platform", subtree=True), OTHER, True),
        (ScopeRange("platform", subtree=False), OTHER, False),
    ],
)
def test_grants_widen_the_view(reach: ScopeRange, path: str, seen: bool) -> None:
    assert View(LEAD, (reach,)).can_read(path) is seen


def test_principal_writes_home_and_where_it_was_granted() -> None:
    grant = Grant(scope="realm:other", subtree=True, verbs=("write",))
    principal = Principal("x", "agent", LEAD, (grant,))
    assert principal.has_verb("write", LEAD)
    assert principal.has_verb("write", OTHER)
    assert not principal.has_verb("write", TEAM)
    assert not principal.has_verb("admin", LEAD)
    assert not principal.view.can_read(OTHER)


def test_admin_has_every_verb() -> None:
    principal = principals.administrator("x", "system")
    assert all(principal.has_verb(verb, OTHER) for verb in principals.ALL_VERBS)


def test_nearest_scopes_come_first() -> None:
    assert access_control.nearest_first(["platform", TEAM, "realm:demo", LEAD]) == (
        LEAD,
        TEAM,
        "realm:demo",
        "platform",
    )


def test_an_agent_on_behalf_of_a_person_reads_and_writes_where_the_person_does() -> None:
    grants = (
        Grant(scope="realm:demo", subtree=True, verbs=("read", "write", "review", "promote")),
        Grant(scope="realm:other", verbs=("admin",)),
        Grant(scope="platform", verbs=("review",)),
    )
    person = Principal("ada", "human", "realm:demo", grants)
    agent = person.as_agent()
    assert (agent.name, agent.type, agent.home) == ("ada", "agent", "realm:demo")
    for path in (LEAD, "realm:demo", "realm:other"):
        assert agent.has_verb("write", path)
        assert agent.view.can_read(path)
        assert not any(agent.has_verb(verb, path) for verb in ("review", "promote", "admin"))
    assert not agent.has_verb("review", "platform")
    assert (person.view.drafts, agent.view.drafts) == (True, False)
    assert agent.as_agent() is agent
