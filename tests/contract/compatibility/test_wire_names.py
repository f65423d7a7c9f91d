"""Names that were stored or sent: none may go while files, manifests or clients have them."""

from __future__ import annotations

import pytest

from tests.contract.compatibility import wire_names


@pytest.fixture(scope="module")
def current() -> dict[str, wire_names.Names]:
    return wire_names.collect()


def test_no_name_that_was_stored_or_sent_is_gone(current: dict[str, wire_names.Names]) -> None:
    deleted_missing = wire_names.missing(wire_names.frozen(), current)
    assert deleted_missing == [], (
        "these names are stored or sent by earlier versions. Keep each as it was. Or keep a reader"
        " of it, list the change in CHANGELOG.md, and take its line out of"
        f" {wire_names.FILE.name}:\n" + "\n".join(deleted_missing)
    )


def test_every_name_that_is_stored_or_sent_is_in_the_file(
    current: dict[str, wire_names.Names],
) -> None:
    unlisted = wire_names.missing(current, wire_names.frozen())
    assert unlisted == [], (
        f"{wire_names.FILE.name} lacks these names, so nothing notices if they go. Add them with"
        " python -m tests.contract.compatibility.wire_names:\n" + "\n".join(unlisted)
    )


def test_a_name_that_is_gone_is_reported_with_its_owner_and_a_new_one_is_not() -> None:
    then = {"tables": {"fact": ["id", "kind"], "link": ["id"]}, "metrics": {"kais_up": []}}
    now = {"tables": {"fact": ["id", "type"]}, "metrics": {"kais_down": []}}
    assert wire_names.missing(then, now) == [
        "tables: fact: kind",
        "tables: link: id",
        "metrics: kais_up",
    ]
    assert wire_names.missing(then, wire_names.merged(then, now)) == []
