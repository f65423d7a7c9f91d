"""Query expansion: what the declared synonyms of a scope add to the terms of a query."""

from __future__ import annotations

import pytest

from knowledge_service.search.query import expansion
from knowledge_service.search.text import analyser


def added_terms(query: str, *groups: tuple[str, ...]) -> set[str]:
    terms = tuple(analyser.sequence(query))
    expanded = expansion.expand_terms(terms, groups)
    assert expanded.related.keys() == expanded.weights.keys() - set(terms)
    return expanded.weights.keys() - expansion.expand_terms(terms).weights.keys()


@pytest.mark.parametrize(
    ("query", "group", "added"),
    [
        ("who is oncall", ("oncall", "pager"), {"pager"}),
        ("the Pagers rang", ("oncall", "pager"), {"oncal"}),
        ("why ImagePullBackOff", ("ImagePullBackOff", "registry"), {"registri"}),
        ("which image", ("ImagePullBackOff", "registry"), set()),
        ("what kind", ("kind", "colour"), {"color"}),
        ("nothing of it", ("oncall", "pager"), set()),
        ("who is oncall", ("oncall", "the"), set()),
    ],
)
def test_a_declared_word_adds_the_others_of_its_group(
    query: str, group: tuple[str, ...], added: set[str]
) -> None:
    assert added_terms(query, group) == added


def test_declared_words_come_before_those_of_the_thesaurus() -> None:
    terms = tuple(analyser.sequence("expired certificate"))
    group = ("certificate", *(f"word{number}x" for number in range(15)))
    expanded = expansion.expand_terms(terms, [group])
    assert expanded.weights["=word14x"] == 0.8
    assert expanded.related["=word14x"] == (analyser.stem("certificate"),)


def test_a_term_is_related_to_each_term_of_the_query_that_adds_it() -> None:
    for query in (("accept", "grant"), ("grant", "accept")):
        assert set(expansion.expand_terms(query).related["permit"]) == {"accept", "grant"}


def test_groups_without_a_word_of_the_query_do_not_apply() -> None:
    groups = [("oncall", "pager"), ("checkout", "basket")]
    assert expansion.applicable_synonyms("empty baskets", groups) == (("checkout", "basket"),)
