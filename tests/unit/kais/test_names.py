import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kais import names

NAMES = st.from_regex(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?", fullmatch=True)


@given(NAMES, st.from_regex(r"[a-z][a-z0-9]{0,20}", fullmatch=True), st.integers(0, 99))
def test_cell_names_are_dns_labels(formation, template, index):
    assert names.is_dns_label(names.cell_name(formation, template, index))


@given(NAMES, NAMES)
def test_different_names_never_share_a_cut(first, second):
    assert (names.cut(first) == names.cut(second)) == (first == second)


def test_short_names_stay_readable():
    assert names.cell_name("review", "lead", 0) == "review-lead-0"
    assert names.revision_name("review", 7) == "review-r00007"
    assert names.job_name("review", 2) == "review-a2"
    assert names.topology_map_name("review") == "topology-review"
    assert names.workspace_claim_name("review") == "workspace-review"
    assert names.knowledge_map_name("review-a2") == "review-a2-knowledge"


def test_long_names_keep_a_hash_of_the_whole_name():
    long = "a" * 80
    assert len(names.cut(long)) == names.LIMIT
    assert names.cut(long + "b") != names.cut(long + "c")


def test_revisions_sort_by_number():
    revision_names = [names.revision_name("b", number) for number in (2, 10, 9)]
    assert sorted(revision_names) == ["b-r00002", "b-r00009", "b-r00010"]


def test_run_id_is_a_uuid_of_version_8_and_always_the_same():
    first = names.run_id("5f9c0b7e", "again")
    assert first == names.run_id("5f9c0b7e", "again")
    assert uuid.UUID(first).version == 8
    assert uuid.UUID(first).variant == uuid.RFC_4122
    assert len({first, names.run_id("5f9c0b7e"), names.run_id("other", "again")}) == 3


@pytest.mark.parametrize(
    ("first", "second"),
    [
        pytest.param({"a": 1, "b": 2}, {"b": 2, "a": 1}, id="order of keys does not matter"),
        pytest.param({"a": 5}, {"a": 5.0}, id="a whole number is the same as a float"),
        pytest.param([1, (2, 3)], [1, [2, 3]], id="a tuple is a list"),
    ],
)
def test_equal_specs_hash_equally(first, second):
    assert names.spec_hash(first) == names.spec_hash(second)
    assert len(names.spec_hash(first)) == 16


@pytest.mark.parametrize(
    ("first", "second"),
    [
        pytest.param("007", 7, id="text is no number"),
        pytest.param([1, 2], [2, 1], id="order of a list matters"),
        pytest.param({"a": None}, {}, id="null is not absent"),
        pytest.param({"a": True}, {"a": 1}, id="true is not one"),
    ],
)
def test_different_specs_hash_differently(first, second):
    assert names.spec_hash(first) != names.spec_hash(second)
