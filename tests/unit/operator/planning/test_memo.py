"""Results that are kept while an object is settled: the same as computed anew, and bounded."""

import pytest

from kais import names
from kais_operator.planning import children, memo


def test_a_result_is_computed_once_until_newer_ones_replace_it():
    results: memo.RecentResults[str, str] = memo.RecentResults(2)
    computed: list[str] = []

    def result(key: str) -> str:
        return results.get(key, lambda: computed.append(key) or key.upper())

    assert [result(key) for key in ("a", "b", "a", "c", "a", "b")] == ["A", "B", "A", "C", "A", "B"]
    assert computed == ["a", "b", "c", "b"]
    assert len(results) == 2


def test_an_error_is_no_result():
    results: memo.RecentResults[str, int] = memo.RecentResults(2)
    with pytest.raises(ValueError, match="invalid literal"):
        results.get("a", lambda: int("no number"))
    assert results.get("a", lambda: 7) == 7


def test_a_hash_that_is_kept_is_the_one_that_is_computed():
    trees = [{"a": 5}, {"a": 5.0}, {"a": True}, {"a": "5"}, {"b": [1, {"c": None}]}, {"a": 5}]
    for tree in trees:
        assert children.spec_hash(tree) == names.spec_hash(tree)


def test_equal_arguments_that_are_other_objects_are_computed_again():
    calls: list[list[int]] = []

    @memo.by_identity(capacity=8)
    def total(numbers: list[int]) -> int:
        calls.append(numbers)
        return sum(numbers)

    first, second = [1, 2], [1, 2]
    assert [total(first), total(second), total(first)] == [3, 3, 3]
    assert len(calls) == 2


def test_equal_strings_that_are_other_objects_share_a_result():
    calls: list[str] = []

    @memo.by_identity(capacity=8)
    def joined(numbers: list[int], first: str, *, last: str) -> str:
        calls.append(first)
        return f"{first}{numbers}{last}"

    numbers = [1]
    uids = ["".join(["uid", "-1"]) for _ in range(2)]
    assert uids[0] is not uids[1]
    assert {joined(numbers, uid, last=uid) for uid in uids} == {"uid-1[1]uid-1"}
    assert len(calls) == 1
    assert joined(numbers, "uid-2", last="uid-1") == "uid-2[1]uid-1"
    assert joined(numbers, "uid-1", last="uid-2") == "uid-1[1]uid-2"
    assert len(calls) == 3


def test_a_string_is_never_taken_for_an_object():
    @memo.by_identity(capacity=8)
    def kind(value: object, *, name: object = None) -> str:
        return f"{type(value).__name__} {type(name).__name__}"

    number = 7
    assert kind(number) == "int NoneType"
    assert kind(str(id(number))) == "str NoneType"
    assert kind("a", name=number) == "str int"
    assert kind("a", name=str(id(number))) == "str str"


def test_arguments_stay_alive_so_that_no_other_object_takes_their_identity():
    @memo.by_identity(capacity=1_000)
    def text(numbers: list[int]) -> str:
        return str(numbers)

    assert [text([number]) for number in range(500)] == [f"[{number}]" for number in range(500)]


def test_a_result_belongs_to_all_of_its_arguments_and_their_names():
    calls: list[tuple[object, ...]] = []

    @memo.by_identity(capacity=8)
    def pair(first: str, *, second: str = "", third: str = "") -> str:
        calls.append((first, second, third))
        return first + second + third

    assert [pair("a", second="b"), pair("a", third="c"), pair("a", second="b")] == [
        "ab",
        "ac",
        "ab",
    ]
    assert len(calls) == 2
