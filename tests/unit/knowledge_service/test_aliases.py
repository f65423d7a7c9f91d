"""Which references are aliases, and what they name: a sentence for each rule."""

from __future__ import annotations

import pytest

from knowledge_service.domain import aliases
from knowledge_service.domain.aliases import Name

REFERENCES = {
    "a namespace and a value": ("alias:ticket:OPS-7", Name("ticket", "OPS-7")),
    "a value may contain colons": ("alias:url:https:x", Name("url", "https:x")),
    "~1 stands for a slash": ("alias:path:a~1b", Name("path", "a/b")),
    "~0 stands for a tilde": ("alias:path:a~0b", Name("path", "a~b")),
    "~01 stands for ~1, not for a slash": ("alias:path:a~01b", Name("path", "a~1b")),
    "a value may contain newlines": ("alias:text:a\nb", Name("text", "a\nb")),
    "a namespace in capitals names nothing": ("alias:Ticket:7", None),
    "a namespace that begins with a digit names nothing": ("alias:7up:7", None),
    "an empty value names nothing": ("alias:ticket:", None),
    "a missing value names nothing": ("alias:ticket", None),
    "a namespace of 63 characters is the longest": (f"alias:{'n' * 63}:v", Name("n" * 63, "v")),
    "a namespace of 64 characters names nothing": (f"alias:{'n' * 64}:v", None),
}


@pytest.mark.parametrize(("reference", "name"), REFERENCES.values(), ids=REFERENCES)
def test_name_of_a_reference(reference: str, name: Name | None) -> None:
    assert aliases.is_alias(reference)
    assert aliases.parse(reference) == name


@pytest.mark.parametrize("value", ["OPS-7", "a/b", "a~b", "~1/~0", "https://x", " "])
def test_reference_of_a_name_is_parsed_as_that_name(value: str) -> None:
    name = Name("ticket", value)
    assert aliases.parse(aliases.reference(name)) == name
    assert "/" not in aliases.reference(name)


def test_id_is_no_alias() -> None:
    assert not aliases.is_alias("019caea8-bd20-75b8-9e25-a681c9ff4ebb")


@pytest.mark.parametrize(
    ("prefix", "digits", "number", "value"),
    [
        pytest.param("OPS-", 4, 7, "OPS-0007", id="a short number is padded"),
        pytest.param("OPS-", 2, 123, "OPS-123", id="a long number is not cut"),
        pytest.param("", 0, 7, "7", id="without prefix and padding"),
    ],
)
def test_value_of_a_sequence_number(prefix: str, digits: int, number: int, value: str) -> None:
    assert aliases.numbered(prefix, digits, number) == value
