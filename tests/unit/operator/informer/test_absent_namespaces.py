"""Which named namespaces count as absent, by what their lists answer."""

from __future__ import annotations

import pytest

from kais_operator.informer.absent_namespaces import Watch, absent_namespaces

KINDS = ("Cell", "Pod")
HOME: Watch = ("ConfigMap", "home")


def every(*namespaces: str) -> set[Watch]:
    return {(kind, namespace) for namespace in namespaces for kind in KINDS}


CASES: dict[str, tuple[tuple[str, ...], set[Watch], set[Watch], set[str]]] = {
    "no list was answered yet": (("a", "b"), set(), set(), set()),
    "all lists work": (("a", "b"), every("a", "b"), set(), set()),
    "all lists of one namespace are forbidden": (("a", "b"), every("a"), every("b"), {"b"}),
    "all lists of two namespaces are forbidden": (
        ("a", "b", "c"),
        every("c"),
        every("a", "b"),
        {"a", "b"},
    ),
    "one list works elsewhere": (("a", "b"), {("Pod", "a")}, every("b"), {"b"}),
    "they were listed before": (("a", "b"), every("a", "b"), every("b"), {"b"}),
    "one kind is forbidden": (("a", "b"), every("a"), {("Pod", "b")}, set()),
    "one list was not answered yet": (("a", "b"), {("Pod", "a")}, {("Pod", "b")}, set()),
    "the lists of all namespaces are forbidden": (("a", "b"), set(), every("a", "b"), set()),
    "all are forbidden by now": (("a", "b"), every("a", "b"), every("a", "b"), set()),
    "the only namespace is forbidden": (("a",), set(), every("a"), set()),
    "only the home works": (("a", "b"), {HOME}, every("a", "b"), set()),
    "the home is named and forbidden": (("a", "home"), every("a"), every("home") | {HOME}, set()),
    "the home is named and works": (("a", "home"), every("home"), every("a"), {"a"}),
}


@pytest.mark.parametrize(
    ("named", "listed", "forbidden", "absent"), CASES.values(), ids=CASES.keys()
)
def test_a_namespace_is_absent_when_all_its_lists_are_forbidden_and_another_one_works(
    named: tuple[str, ...], listed: set[Watch], forbidden: set[Watch], absent: set[str]
):
    assert absent == absent_namespaces(
        [*every(*named), HOME],
        named=frozenset(named),
        operator_namespace="home",
        listed=listed,
        forbidden=forbidden,
    )


def test_no_namespace_is_absent_when_all_of_the_cluster_is_watched():
    watches: list[Watch] = [(kind, None) for kind in KINDS]
    assert not absent_namespaces(
        watches,
        named=frozenset(),
        operator_namespace="home",
        listed={("Cell", None)},
        forbidden={("Pod", None)},
    )
