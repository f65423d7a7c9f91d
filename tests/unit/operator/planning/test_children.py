"""Whose a child is: the table that every kind stands on."""

from typing import Any

import pytest

from kais.reasons import Reason
from kais_operator.planning import children
from kais_operator.planning.children import Ownership, Parent
from kais_operator.planning.plan import Apply, Body, Create, Delete, EmitEvent, PatchMetadata

PARENT = Parent("kais.io/v1", "Formation", "demo", "team", "uid-team")
OWN_LABELS = {"kais.io/formation": "team", "app.kubernetes.io/managed-by": "kais"}


def desired(**content: Any) -> Body:
    return children.child_body(
        PARENT,
        api_version="v1",
        kind="ConfigMap",
        name="topology-team",
        content={"data": {"routes.json": "{}", **content}},
    )


def seen(body: Body | None = None, **metadata: Any) -> Body:
    matching_body = body or desired()
    return {
        **matching_body,
        "metadata": {**matching_body["metadata"], "uid": "u1", "resourceVersion": "7"} | metadata,
    }


def foreign(**metadata: Any) -> Body:
    return seen(ownerReferences=[], labels={}, **metadata)


OTHER_OWNER = [
    {
        "apiVersion": "kais.io/v1alpha1",
        "kind": "Formation",
        "name": "team",
        "uid": "uid-before",
        "controller": True,
    }
]
NOT_CONTROLLER = [{"kind": "Team", "name": "x", "uid": "uid-x"}]

CASES = {
    "nothing of that name is created": (None, Ownership.MISSING, Create, None),
    "a child as wanted is left as it is": (seen(), Ownership.OWNED, None, None),
    "a child that differs is applied": (
        seen(desired(more="x")) | {"data": {}},
        Ownership.OWNED,
        Apply,
        None,
    ),
    "a map that somebody made immutable with other data is deleted, to be created again": (
        seen() | {"data": {"routes.json": "[]"}, "immutable": True},
        Ownership.OWNED,
        Delete,
        Reason.DELETING,
    ),
    "an immutable map with another label is applied": (
        seen(labels={**OWN_LABELS, "kais.io/spec-hash": "forged"}) | {"immutable": True},
        Ownership.OWNED,
        Apply,
        None,
    ),
    "an immutable map with a key that is no longer desired is deleted": (
        seen(labels={**OWN_LABELS, "kais.io/spec-hash": "older"})
        | {"data": {**desired()["data"], "old.json": "{}"}, "immutable": True},
        Ownership.OWNED,
        Delete,
        Reason.DELETING,
    ),
    "an immutable map as wanted is left as it is": (
        seen() | {"immutable": True},
        Ownership.OWNED,
        None,
        None,
    ),
    "a child that is going is waited for": (
        seen(deletionTimestamp="2026-03-01T12:00:00Z"),
        Ownership.DELETING,
        None,
        Reason.DELETING,
    ),
    "a stranger that is going is waited for": (
        foreign(deletionTimestamp="2026-03-01T12:00:00Z"),
        Ownership.DELETING,
        None,
        Reason.DELETING,
    ),
    "a labelled child without an owner is adopted": (
        seen(ownerReferences=[]),
        Ownership.ORPHANED,
        PatchMetadata,
        None,
    ),
    "a labelled child with another, plain owner is adopted": (
        seen(ownerReferences=NOT_CONTROLLER),
        Ownership.ORPHANED,
        PatchMetadata,
        None,
    ),
    "a stranger is left alone": (foreign(), Ownership.FOREIGN, None, Reason.NAME_TAKEN),
    "a child of an earlier owner of that name is not ours, and waited for": (
        seen(ownerReferences=OTHER_OWNER),
        Ownership.FOREIGN,
        None,
        Reason.DELETING,
    ),
    "a child of another owner is left alone": (
        seen(ownerReferences=[{**OTHER_OWNER[0], "name": "other"}]),
        Ownership.FOREIGN,
        None,
        Reason.NAME_TAKEN,
    ),
    "a child of an object of that name in another API group is left alone": (
        seen(ownerReferences=[{**OTHER_OWNER[0], "apiVersion": "teams.example/v1"}]),
        Ownership.FOREIGN,
        None,
        Reason.NAME_TAKEN,
    ),
    "somebody's object with the formation's label alone is left alone": (
        seen(ownerReferences=[], labels={"kais.io/formation": "team"}),
        Ownership.FOREIGN,
        None,
        Reason.NAME_TAKEN,
    ),
}


@pytest.mark.parametrize(("live", "standing", "action", "reason"), CASES.values(), ids=CASES)
def test_a_childs_name_decides(
    live: Body | None, standing: Ownership, action: type | None, reason: Reason | None
) -> None:
    decision = children.decide_child(desired(), live, PARENT)
    assert decision.ownership is standing
    assert [type(a) for a in decision.actions] == ([action] if action else [])
    assert decision.reason is reason


def test_a_taken_name_is_named_with_what_to_do() -> None:
    decision = children.decide_child(desired(), foreign(), PARENT)
    assert decision.message == (
        "ConfigMap/demo/topology-team exists already and does not belong to Formation/demo/team; "
        "delete or rename it, it is left untouched"
    )
    assert decision.requeue_after == children.NAME_TAKEN_RETRY_INTERVAL


def test_adoption_keeps_the_other_owners() -> None:
    result = seen(ownerReferences=NOT_CONTROLLER)
    (action,) = children.decide_child(desired(), result, PARENT).actions
    assert isinstance(action, PatchMetadata)
    assert action.resource_version == "7"
    assert action.owner_references == (*NOT_CONTROLLER, PARENT.owner_reference())


def test_a_fixed_child_is_never_applied() -> None:
    result = seen(desired(more="x")) | {"data": {}}
    assert children.decide_fixed_child(desired(), result, PARENT).actions == ()


def test_the_deletion_of_an_immutable_map_is_bound_to_the_uid_that_was_seen() -> None:
    result = seen() | {"data": {"routes.json": "[]"}, "immutable": True}
    decision = children.decide_child(desired(), result, PARENT)
    (action,) = decision.actions
    assert isinstance(action, Delete)
    assert action.uid == "u1"
    assert decision.message == (
        "ConfigMap/demo/topology-team was made immutable with other data; it is created again"
    )


def test_an_apply_is_bound_to_the_uid_that_was_seen() -> None:
    result = seen() | {"data": {}}
    action = children.decide_child(desired(), result, PARENT).actions[0]
    assert isinstance(action, Apply)
    assert action.uid == "u1"


def events(desired_body: Body, live: Body) -> list[str]:
    actions = children.decide_child(desired_body, live, PARENT).actions
    return [action.message for action in actions if isinstance(action, EmitEvent)]


def test_an_edit_of_another_client_is_undone_with_an_event() -> None:
    edited = seen(desired(more="x")) | {"data": {"routes.json": "[]", "more": "x"}}
    assert events(desired(more="x"), edited) == [
        (
            "another client changed ConfigMap/demo/topology-team (data.routes.json); the change is"
            " undone, because Formation/demo/team decides it: change that object instead"
        )
    ]


def test_the_event_is_about_the_child_which_the_client_describes() -> None:
    edited = seen(desired(more="x")) | {"data": {"routes.json": "[]", "more": "x"}}
    actions = children.decide_child(desired(more="x"), edited, PARENT).actions
    (event,) = [action for action in actions if isinstance(action, EmitEvent)]
    assert event.involved is not None
    assert event.involved.to_body() == {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"namespace": "demo", "name": "topology-team", "uid": "u1"},
    }


def test_a_new_spec_of_the_parent_is_no_edit_of_another_client() -> None:
    assert events(desired(more="x"), seen()) == []


def test_the_event_lists_the_first_paths_of_a_large_edit() -> None:
    keys = {f"key{n}": "x" for n in range(7)}
    (message,) = events(desired(**keys), seen(desired(**keys)) | {"data": {}})
    assert "(data.routes.json, data.key0, data.key1, data.key2, data.key3 and 3 more)" in message


@pytest.mark.parametrize(
    ("replicas", "declared", "count"),
    [(0, 1, 0), (1, 0, 0), (3, 1, 1)],
    ids=["started again", "scaled down", "scaled by a person"],
)
def test_a_cell_that_the_operator_stops_or_starts_is_no_edit_of_another_client(
    replicas: int, declared: int, count: int
) -> None:
    content = {"spec": {"replicas": declared}}
    body = children.child_body(
        PARENT, api_version="apps/v1", kind="Deployment", name="solo", content=content
    )
    assert len(events(body, seen(body) | {"spec": {"replicas": replicas}})) == count


EXPECTED = {
    "spec": {"env": [{"name": "A", "value": "1"}], "args": ["x", "y"], "tools": [], "n": 5.0}
}
DIFFERENCES = {
    "defaults that the API server added are none": (
        {"spec": {**EXPECTED["spec"], "n": 5, "extra": True}, "status": {}},
        False,
    ),
    "an entry that somebody added to a named list is none": (
        {"spec": {**EXPECTED["spec"], "env": [{"name": "B"}, {"name": "A", "value": "1"}]}},
        False,
    ),
    "an empty list that is not stored is none": (
        {"spec": {k: v for k, v in EXPECTED["spec"].items() if k != "tools"}},
        False,
    ),
    "a changed value is one": (
        {"spec": {**EXPECTED["spec"], "env": [{"name": "A", "value": "2"}]}},
        True,
    ),
    "a longer plain list is one": ({"spec": {**EXPECTED["spec"], "args": ["x", "y", "z"]}}, True),
    "a missing entry is one": ({"spec": {**EXPECTED["spec"], "env": []}}, True),
}


@pytest.mark.parametrize(("expected", "is_different"), DIFFERENCES.values(), ids=DIFFERENCES)
def test_differences(expected: Body, is_different: bool) -> None:
    assert children.differs(EXPECTED, expected) is is_different


SETTINGS = {
    "a text as a limit": ({"limits": {"scope": "team"}}, {"limits": {"scope": "others"}}),
    "a text as a request": ({"requests": {"a": "team"}}, {"requests": {"a": "1"}}),
    "a text as a size": ({"sizeLimit": "large"}, {"sizeLimit": "1Gi"}),
    "an empty text as a divisor": ({"divisor": ""}, {"divisor": "1"}),
    "a truth value": ({"divisor": True}, {"divisor": False}),
    "a tree": ({"limits": {"scope": {"is": ["team"]}}}, {"limits": {"scope": {"is": []}}}),
    "a list": ({"limits": {"scope": ["team"]}}, {"limits": {"scope": "team"}}),
}


@pytest.mark.parametrize(("config", "edited"), SETTINGS.values(), ids=SETTINGS)
def test_settings_of_a_tool_that_are_named_like_quantities_are_compared_as_they_are(
    config: Body, edited: Body
) -> None:
    cell, edited_cell = (
        {"spec": {"mind": {"tools": [{"name": "search", "config": settings}]}}}
        for settings in (config, edited)
    )
    with_default = {"spec": {**cell["spec"], "replicas": 1}}
    assert not children.differs(cell, with_default)
    assert children.differs(cell, edited_cell)


def test_another_spelling_of_a_quantity_is_no_difference() -> None:
    resources = {"resources": {"limits": {"cpu": "0.5"}, "requests": {"cpu": 1}}}
    stored = {"resources": {"limits": {"cpu": "500m"}, "requests": {"cpu": "1"}}}
    assert not children.differs(resources, {**stored, "divisor": "1"})


def test_what_is_taken_out_of_a_child_changes_its_hash() -> None:
    initial_state, final_state = desired(more="x"), desired()
    assert children.differs(final_state, initial_state)
