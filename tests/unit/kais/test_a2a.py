"""The ids and addresses that operator, agent runtime and peers derive alike."""

from __future__ import annotations

import pytest

from kais import a2a


def test_a_message_has_one_id_for_its_run_attempt_and_purpose() -> None:
    ids = {
        a2a.message_id(run, attempt, purpose)
        for run in ("run-1", "run-2")
        for attempt in (1, 2)
        for purpose in ("work", "review")
    }
    assert len(ids) == 8
    assert a2a.message_id("run-1", 1, "work") == a2a.message_id("run-1", 1, "work")


def test_ids_stay_equal_across_versions() -> None:
    message = a2a.message_id("run-1", 1, "work")
    assert message == "eb6fcb1b-b6d7-524a-b4d0-f261fa569aaf"
    assert a2a.task_id(a2a.OPERATOR, message) == "29b286dc-3f11-5c4f-be38-f710213f098a"


def test_two_owners_never_share_a_task() -> None:
    assert a2a.task_id("operator", "m-1") != a2a.task_id("cell/demo/lead-0", "m-1")


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("http://critic-0.demo.svc:8080/rpc", "/rpc"),
        ("https://attacker.example/rest", "/rest"),
        ("https://key@attacker.example:1/rest?next=http://other#top", "/rest"),
        ("http://critic-0", "/"),
    ],
)
def test_only_the_path_of_a_card_address_is_used(url: str, path: str) -> None:
    assert a2a.interface_path(url) == path


@pytest.mark.parametrize(
    "url",
    ["/rpc", "", "mailto:a@example.org", "http://a/../rpc", "http://a/x\\..\\y", "http://a/\n"],
)
def test_an_address_without_a_plain_path_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="agent card"):
        a2a.interface_path(url)


def test_counts_are_whole_numbers_again() -> None:
    value = {"turns": 3.0, "cost": "0.5", "list": [1.0, 1.5, True]}
    assert repr(a2a.whole_numbers(value)) == "{'turns': 3, 'cost': '0.5', 'list': [1, 1.5, True]}"
