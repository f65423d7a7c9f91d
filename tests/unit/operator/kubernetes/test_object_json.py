"""Objects are read whole or known to be cut, however deeply they nest."""

from __future__ import annotations

import msgspec
import pytest

from kais_operator.kubernetes import object_json
from tests.fakes import deep_json

METADATA = b'{"metadata":{"name":"a"},"text":"[{\\"[\\\\"}'


def tree(levels: int) -> bytes:
    return b'{"a":' * levels + b"1" + b"}" * levels


@pytest.mark.parametrize("levels", [1, object_json.MAX_DEPTH - 1, object_json.MAX_DEPTH])
def test_an_object_of_the_maximum_depth_is_read_whole(levels):
    body, is_readable = object_json.decode_object(tree(levels))
    assert is_readable
    assert msgspec.json.encode(body) == tree(levels)


@pytest.mark.parametrize("levels", [object_json.MAX_DEPTH + 1, 900, 2_000, deep_json.LEVELS])
def test_a_deeper_object_is_not_to_be_acted_upon_but_its_metadata_are_known(levels):
    content = deep_json.nest(METADATA, levels)
    body, is_readable = object_json.decode_object(content)
    assert not is_readable
    assert body["metadata"] == {"name": "a"}
    assert body["text"] == '[{"[\\'


def test_an_object_that_is_being_deleted_is_acted_upon_however_deep():
    deleted = METADATA.replace(b'"name"', b'"deletionTimestamp":"2026-01-01T00:00:00Z","name"')
    _, is_readable = object_json.decode_object(deep_json.nest(deleted, deep_json.LEVELS))
    assert is_readable


def test_brackets_in_strings_do_not_count():
    text = '[{\\"' * 2_000
    content = msgspec.json.encode({"metadata": {}, "text": text})
    assert object_json.decode_object(content) == ({"metadata": {}, "text": text}, True)


def test_many_objects_beside_each_other_are_not_deep():
    content = msgspec.json.encode({"items": [{"a": []}] * 5_000})
    assert object_json.decode_object(content)[1]


@pytest.mark.parametrize(
    "items",
    [[tree(2_000), b"{}"], [b"{}", tree(object_json.MAX_DEPTH + 1)], [tree(900), tree(9_990)]],
)
def test_of_a_page_only_the_objects_that_are_deep_themselves_cannot_be_read(items):
    content = b'{"metadata":{"resourceVersion":"1"},"items":[' + b",".join(items) + b"]}"
    page = object_json.decode_page(content)
    readable = [object_json.decode_object(item)[1] for item in page.items or ()]
    assert readable == [item == b"{}" for item in items]


@pytest.mark.parametrize("content", [tree(2_000)[:-1_000], tree(2_000)[:10_000], b"[" * 5_000])
def test_deep_json_that_ends_too_early_is_no_object(content):
    with pytest.raises(msgspec.DecodeError):
        object_json.decode_object(content)
