import pytest
from hypothesis import given
from hypothesis import strategies as st

from kais import facts
from kais.facts import Statement


def same(first, second):
    return facts.equality_hash_hex(first) == facts.equality_hash_hex(second)


BASE = Statement(kind="fact", content="The build needs Go 1.24")


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(Statement("fact", "The  build\nneeds Go 1.24 "), id="one space"),
        pytest.param(Statement("fact", "The build needs Go 1.24", data={}), id="empty data"),
    ],
)
def test_facts_are_equal(other):
    assert same(BASE, other)


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(Statement("pitfall", BASE.content), id="another kind"),
        pytest.param(Statement("fact", "the build needs go 1.24"), id="another case"),
        pytest.param(Statement("fact", BASE.content, subject="build"), id="a subject"),
        pytest.param(Statement("fact", BASE.content, about="f1"), id="an entity"),
        pytest.param(Statement("fact", BASE.content, data={"a": 1}), id="data"),
    ],
)
def test_facts_are_different(other):
    assert not same(BASE, other)


def test_keys_are_folded_and_composed():
    statement = Statement("fact", "c", subject="Caf\u00e9  Nord", predicate="Opens")
    other_statement = Statement("fact", "c", subject="cafe\u0301 nord", predicate="opens")
    assert same(statement, other_statement)


def test_composed_and_decomposed_content_is_equal():
    assert same(Statement("fact", "caf\u00e9"), Statement("fact", "cafe\u0301"))


@given(st.text(max_size=60))
def test_normal_content_is_stable(text):
    first_normal_content = facts.normalize_content(text)
    assert facts.normalize_content(first_normal_content) == first_normal_content


@given(st.text(max_size=60))
def test_normal_key_is_stable(text):
    first_normal_key = facts.normalize_key(text)
    assert facts.normalize_key(first_normal_key) == first_normal_key


def test_tags_merge_as_they_are_matched_and_keep_the_first_spelling():
    assert facts.merge_tags(["Go", "ci"], ["GO", "new", " "]) == ["Go", "ci", "new"]
    assert len(facts.merge_tags([], [str(i) for i in range(50)])) == facts.LIMITS.tags


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        (Statement("Fact!", "c"), 'kind "Fact!" must be up to 63 lower-case letters'),
        (Statement("fact", " \n"), "content is empty"),
        (Statement("fact", "x" * 8193), "content has 8193 characters; the maximum is 8192"),
        (
            Statement("fact", "c", subject="s" * 600),
            "subject has 600 characters; the maximum is 512",
        ),
        (Statement("fact", "c", data={"a": "x" * 70000}), "bytes; the maximum is 65536"),
    ],
)
def test_limits_are_named(statement, message):
    (violation,) = facts.violations(statement)
    assert message in violation


def test_a_long_title_is_named_beside_other_violations():
    violations = facts.violations(Statement("fact", ""), title="t" * 201)
    assert violations == ["content is empty", "title has 201 characters; the maximum is 200"]
