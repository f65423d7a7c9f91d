import pytest

from kais import compatibility
from kais.resources.blueprint import TemplateSpec


def template(*parameters, **changes):
    data = {"formation": {"cells": [{"name": "a"}]}, "parameters": list(parameters), **changes}
    return TemplateSpec.from_dict(data)


def p(**fields):
    return {"name": "p", "type": "string", **fields}


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ([p()], [], "parameter 'p' was removed"),
        (
            [p(default="x")],
            [p(type="integer", default=1)],
            "changed its type from string to integer",
        ),
        ([], [p()], "parameter 'p' was added and is required"),
        ([p(default="x")], [p()], "parameter 'p' became required"),
        ([p(default="x")], [p(default="y")], 'changed its default from "x" to "y"'),
        ([p(required=False)], [p(default="y")], 'changed its default from none to "y"'),
        ([p()], [p(pattern="[a-z]+")], "is stricter: it must match [a-z]+"),
        (
            [p(type="secretRef")],
            [p(type="secretRef", values=["mail"])],
            'is stricter: its Secret must be one of "mail"',
        ),
        (
            [p(type="secretRef", values=["mail", "chat"])],
            [p(type="secretRef", values=["mail"])],
            'no longer takes "chat"',
        ),
        ([p(maxLength=9)], [p(maxLength=5)], "is stricter: maxLength 5 instead of 9"),
        ([p(type="integer")], [p(type="integer", min=1)], "is stricter: min 1 instead of none"),
        (
            [p(type="enum", values=["a", "b"])],
            [p(type="enum", values=["a"])],
            'no longer takes "b"',
        ),
        ([p()], [p(immutable=True)], "became immutable"),
        (
            [p(type="integer", min=1)],
            [p(type="integer", min=2)],
            "is stricter: min 2 instead of 1",
        ),
        ([p(type="number", max=9)], [p(type="number", max=1.5)], "max 1.5 instead of 9"),
        ([p(type="number")], [p(type="number", max=3)], "max 3 instead of none"),
        ([p(minLength=1)], [p(minLength=2)], "minLength 2 instead of 1"),
        ([p(type="array")], [p(type="array", minItems=1)], "minItems 1 instead of none"),
        ([p(type="array", maxItems=4)], [p(type="array", maxItems=3)], "maxItems 3 instead of 4"),
        ([p(pattern="a|b")], [p(pattern="a")], "is stricter: it must match a"),
        ([p(required=False)], [p(required=True)], "parameter 'p' became required"),
        ([p(type="object")], [p(type="array")], "changed its type from object to array"),
    ],
)
def test_change_breaks_callers(old, new, message):
    comparison = compatibility.compare(template(*old), template(*new))
    assert message in comparison.breaking[0]
    assert message in comparison.changes


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ([], [p(default="x")], "parameter 'p' was added"),
        ([p()], [p(description="d")], "parameter 'p' has looser rules or a new description"),
        ([p(maxLength=5)], [p(maxLength=9)], "parameter 'p' has looser rules or a new description"),
        ([p(pattern="a")], [p()], "parameter 'p' has looser rules or a new description"),
        ([p()], [p(required=False)], "parameter 'p' has looser rules or a new description"),
        ([p(immutable=True)], [p()], "parameter 'p' has looser rules or a new description"),
        ([p()], [p(example="x")], "parameter 'p' has looser rules or a new description"),
        (
            [p(type="enum", values=["a"])],
            [p(type="enum", values=["b", "a"])],
            "parameter 'p' has looser rules or a new description",
        ),
    ],
)
def test_change_breaks_nobody(old, new, message):
    comparison = compatibility.compare(template(*old), template(*new))
    assert comparison.breaking == ()
    assert comparison.changes == message


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"formation": {"cells": [{"name": "b"}]}},
            "formation.cells[a] was removed; formation.cells[b] was added",
        ),
        (
            {"formation": {"cells": [{"name": "a"}, {"name": "b"}]}},
            "formation.cells[b] was added",
        ),
        ({"formation": {"cells": []}}, "formation.cells[a] was removed"),
        ({"formation": {"x": 1}}, "formation.cells was removed; formation.x was added"),
        ({"mission": {"objective": "o"}}, "mission was added"),
        ({"description": "d"}, "description was changed"),
        ({"knowledge": {"policy": "Never"}}, 'knowledge.policy changed from "Always" to "Never"'),
    ],
)
def test_template_changes_are_told_in_words_and_break_nobody(changes, message):
    comparison = compatibility.compare(template(), template(**changes))
    assert comparison == compatibility.Comparison(message, ())


def test_every_break_is_listed_before_what_breaks_nobody():
    old = template(p(), {"name": "q", "type": "integer", "max": 9}, description="d")
    new = template({"name": "q", "type": "integer", "max": 3}, {"name": "r", "type": "boolean"})
    comparison = compatibility.compare(old, new)
    assert comparison.breaking == (
        "parameter 'p' was removed",
        "parameter 'q' is stricter: max 3 instead of 9",
        "parameter 'r' was added and is required",
    )
    assert comparison.changes == "; ".join([*comparison.breaking, "description was changed"])


def test_removed_mission_is_told():
    with_mission = template(mission={"objective": "o"})
    assert compatibility.compare(with_mission, template()).changes == "mission was removed"


def test_equal_specs_have_no_changes():
    assert compatibility.compare(template(p()), template(p())).changes == ""


def test_many_changes_are_counted():
    old = template(formation={f"k{i}": i for i in range(50)})
    new = template(formation={f"k{i}": i + 1 for i in range(50)})
    assert compatibility.compare(old, new).changes.endswith("and 30 more changes of formation")


def with_workspace(**workspace):
    return template(formation={"cells": [{"name": "a"}], "workspace": workspace})


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            with_workspace(),
            template(),
            "formation.workspace was removed: the volume of the team and its files are deleted",
        ),
        (
            with_workspace(),
            with_workspace(**{"$if": "debug"}),
            (
                "formation.workspace depends on another condition: if it is false, the volume of"
                " the team and its files are deleted"
            ),
        ),
        (
            with_workspace(),
            with_workspace(accessMode="ReadWriteMany"),
            (
                'formation.workspace.accessMode changed from "ReadWriteOnce" to "ReadWriteMany":'
                " the volume of a team cannot change that"
            ),
        ),
        (
            with_workspace(storageClassName="slow"),
            with_workspace(storageClassName="fast"),
            (
                'formation.workspace.storageClassName changed from "slow" to "fast": the volume of'
                " a team cannot change that"
            ),
        ),
        (
            with_workspace(),
            with_workspace(storageClassName="fast"),
            (
                'formation.workspace.storageClassName changed from none to "fast": the volume of'
                " a team cannot change that"
            ),
        ),
    ],
)
def test_a_revision_that_costs_a_team_its_volume_breaks_callers(old, new, message):
    comparison = compatibility.compare(old, new)
    assert comparison.breaking == (message,)
    assert comparison.changes.startswith(message)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (template(), with_workspace()),
        (with_workspace(size="1Gi"), with_workspace(size="2Gi")),
        (with_workspace(), with_workspace(accessMode="ReadWriteOnce")),
        (with_workspace(storageClassName="slow"), with_workspace()),
        (with_workspace(**{"$if": "debug"}), with_workspace()),
        (with_workspace(**{"$if": "debug"}), with_workspace(**{"$if": "debug"})),
    ],
)
def test_a_workspace_that_a_team_keeps_breaks_nobody(old, new):
    assert compatibility.compare(old, new).breaking == ()
