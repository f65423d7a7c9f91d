"""Facets: which values of a fact's data they name, and how they are written."""

from __future__ import annotations

from typing import Any

import pytest

from knowledge_service.domain import facets

DATA: dict[str, Any] = {
    "domain": "Shop  Floor",
    "applicability": {"projects": ["shop", "till"], "nested": [[1, [2.5]], True, None]},
    "steps": [{"tool": "hammer"}, {"tool": ["saw"]}, "text"],
}


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("domain", {"shop floor"}),
        ("applicability.projects", {"shop", "till"}),
        ("applicability.nested", {"1", "2.5", "true"}),
        ("steps.tool", {"hammer", "saw"}),
        ("applicability", set()),
        ("domain.projects", set()),
        ("missing", set()),
    ],
)
def test_a_name_is_a_path_through_objects_and_lists(name: str, values: set[str]) -> None:
    assert facets.values_of(DATA, name) == values


@pytest.mark.parametrize("data", [None, "shop", [], 3])
def test_data_that_is_no_object_has_no_facets(data: Any) -> None:
    assert facets.values_of(data, "domain") == frozenset()


def test_case_and_white_space_do_not_matter() -> None:
    assert facets.has_facet(DATA, facets.parse("domain= SHOP floor"))


def test_a_value_may_contain_equals_signs() -> None:
    assert facets.parse("rule=a=b") == facets.Facet("rule", "a=b")


@pytest.mark.parametrize("text", ["", "domain", "domain=", "=shop", "a..b=c", ".a=b", "domain= "])
def test_a_facet_without_name_or_value_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not NAME=VALUE, such as"):
        facets.parse(text)
