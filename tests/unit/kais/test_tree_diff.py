import pytest
from hypothesis import given
from hypothesis import strategies as st

from kais import tree_diff

TREES = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text("abc", max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text("kn", max_size=2), inner, max_size=3)
    ),
    max_leaves=12,
)


@pytest.mark.parametrize(
    ("old", "new", "lines"),
    [
        pytest.param({"a": 1}, {"a": 1}, [], id="equal trees"),
        pytest.param({"a": 1}, {"a": 1.0}, [], id="a number in another spelling"),
        pytest.param({"a": 1}, {"a": True}, ["a changed from 1 to true"], id="a type"),
        pytest.param({"a": "1"}, {"a": 1}, ['a changed from "1" to 1'], id="a text, a number"),
        pytest.param({}, {"a": {"b": 1}}, ["a was added"], id="a member added"),
        pytest.param({"a": [1, 2]}, {"a": [1]}, ["a[1] was removed"], id="an item removed"),
        pytest.param(
            {"cells": [{"name": "b", "n": 1}]},
            {"cells": [{"name": "a", "n": 1}, {"name": "b", "n": 2}]},
            ["cells[b].n changed from 1 to 2", "cells[a] was added"],
            id="a named item added in front changes no other",
        ),
        pytest.param(
            {"cells": [{"name": "a"}, {"name": "b"}]},
            {"cells": [{"name": "b"}, {"name": "a"}]},
            ["cells changed its order to b, a"],
            id="named items in another order",
        ),
        pytest.param(
            {"x": [{"name": "a"}, {"name": "a"}]},
            {"x": [{"name": "a"}]},
            ["x[1] was removed"],
            id="names that stand twice are no names",
        ),
        pytest.param(
            {"a": "x" * 100},
            {"a": None},
            [f'a changed from "{"x" * 59}… to none'],
            id="a long value is cut",
        ),
    ],
)
def test_what_changed_is_told_with_its_path(old, new, lines):
    assert tree_diff.diff_trees(old, new) == lines


def test_the_root_is_named():
    assert tree_diff.diff_trees({"a": 1}, {"a": 2}, path="Formation.spec") == [
        "Formation.spec.a changed from 1 to 2"
    ]


@given(TREES)
def test_a_tree_does_not_differ_from_itself(tree):
    assert tree_diff.diff_trees(tree, tree, path="x") == []


@given(TREES, TREES)
def test_trees_that_differ_have_a_difference_both_ways(old, new):
    there = tree_diff.diff_trees(old, new, path="x")
    back = tree_diff.diff_trees(new, old, path="x")
    assert bool(there) == bool(back)
    if not there:
        assert old == new
