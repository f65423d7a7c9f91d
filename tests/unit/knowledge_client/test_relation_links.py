"""A link keeps the type and the metadata of a relation, whatever keys the metadata has."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowledge_client import relation_links

KEYS = st.sampled_from(
    ["relationType", "metadata.relationType", "metadata.metadata.relationType", "metadata.", "a"]
)
TYPES = st.sampled_from(["knows", "Knows", "works on", "works_on", "is_", "ü", "x" * 64, "x" * 65])
VALUES = st.none() | st.integers() | TYPES | st.just("") | st.dictionaries(KEYS, st.integers())


@given(relation_type=TYPES | st.text(min_size=1), metadata=st.dictionaries(KEYS, VALUES))
def test_type_and_metadata_come_back_from_the_link(
    relation_type: str, metadata: dict[str, object]
) -> None:
    data = relation_links.link_data(relation_type, metadata)
    kind = relation_links.link_type(relation_type)
    assert relation_links.read_relation(kind, data) == (relation_type, metadata or None)


@pytest.mark.parametrize(
    "value",
    [5, None, True, ["knows"], {"a": 1}, "", "knows", "hates", "knows" + " " * 512],
    ids=lambda value: repr(value)[:20],
)
def test_data_without_a_type_that_leads_to_the_link_is_metadata(value: object) -> None:
    data = {"relationType": value, "metadata.relationType": 1}
    assert relation_links.read_relation("knows", data) == ("knows", data)


@pytest.mark.parametrize("data", [None, 5, "text", ["a"]], ids=repr)
def test_data_that_is_no_object_is_no_metadata(data: object) -> None:
    assert relation_links.read_relation("knows", data) == ("knows", None)
