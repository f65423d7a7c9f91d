import pytest

from kais import compatibility
from kais.resources.blueprint import TemplateSpec


def template(*parameters, **changes):
    data = {"formation": {"cells": [{"name": "a"}]}, "parameters": list(parameters), **changes}
    return TemplateSpec.from_dict(data)


def p(**fields):
    return {"name": "p", "type": "string", **fields}


@pytest.mark.parametrize(
    ("old", "new", "words"),
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
        ([p(maxLength=9)], [p(maxLength=5)], "is stricter: maxLength 5 instead of 9"),
        ([p(type="integer")], [p(type="integer", min=1)], "is stricter: min 1.0 instead of none"),
        (
            [p(type="enum", values=["a", "b"])],
            [p(type="enum", values=["a"])],
            'no longer takes "b"',
        ),
        ([p()], [p(immutable=True)], "became immutable"),
    ],
)
def test_change_breaks_callers(old, new, words):
    found = compatibility.compare(template(*old), template(*new))
    assert found.is_breaking
    assert words in found.breaking[0]
    assert words in found.changes


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ([], [p(default="x")], "parameter 'p' was added"),
        ([p()], [p(description="d")], "parameter 'p' was loosened or described anew"),
        ([p(maxLength=5)], [p(maxLength=9)], "parameter 'p' was loosened or described anew"),
        ([p(pattern="a")], [p()], "parameter 'p' was loosened or described anew"),
    ],
)
def test_change_breaks_nobody(old, new, words):
    found = compatibility.compare(template(*old), template(*new))
    assert not found.is_breaking
    assert found.changes == words


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            {"formation": {"cells": [{"name": "b"}]}},
            'formation.cells[0].name changed from "a" to "b"',
        ),
        (
            {"formation": {"cells": [{"name": "a"}, {"name": "b"}]}},
            "formation.cells[1] was added",
        ),
        ({"formation": {"cells": []}}, "formation.cells[0] was removed"),
        ({"formation": {"x": 1}}, "formation.cells was removed; formation.x was added"),
        ({"mission": {"objective": "o"}}, "mission was added"),
        ({"description": "d"}, "description was changed"),
        ({"knowledge": {"policy": "Never"}}, 'knowledge.policy changed from "Always" to "Never"'),
    ],
)
def test_template_changes_are_told_in_words_and_break_nobody(changes, words):
    found = compatibility.compare(template(), template(**changes))
    assert found == compatibility.Comparison(words, ())


def test_removed_mission_is_told():
    with_mission = template(mission={"objective": "o"})
    assert compatibility.compare(with_mission, template()).changes == "mission was removed"


def test_equal_specs_have_no_changes():
    assert compatibility.compare(template(p()), template(p())).changes == ""


def test_many_changes_are_counted():
    old = template(formation={f"k{i}": i for i in range(50)})
    new = template(formation={f"k{i}": i + 1 for i in range(50)})
    assert compatibility.compare(old, new).changes.endswith("and 30 more changes of formation")
