"""`kais approvals`: what waits, and the decision in the name of who runs the command."""

import json

import pytest

from kais import approvals, labels
from kais_cli.exit_status import ExitStatus
from tests.cli import objects

CALL = {
    "call": "5f0d2b3c-1",
    "tool": "write_file",
    "arguments": '{"path": "shared/fix.md"}',
    "sha256": "ab" * 32,
    "requestedAt": "2026-03-01T12:00:00Z",
    "expiresAt": "2026-03-01T13:00:00Z",
}


def put(cluster, *calls):
    body = objects.mission(phase="Running", attempt=1)
    body["status"]["approvals"] = list(calls)
    cluster.put(body)
    return body["metadata"]["name"]


def test_list_shows_what_each_call_would_do(terminal, cluster):
    put(cluster, CALL, {**CALL, "call": "done-1", "outcome": "approved", "by": "ana"})
    assert terminal.run("approvals", "list") == ExitStatus.SUCCEEDED
    assert "5f0d2b3c-1" in terminal.out
    assert '{"path": "shared/fix.md"}' in terminal.out
    assert "done-1" not in terminal.out


def test_arguments_that_are_cut_are_marked_and_yaml_has_them_all(terminal, cluster):
    arguments = json.dumps({"content": "x" * 200, "path": "shared/fix.md"})
    put(cluster, {**CALL, "arguments": arguments})
    assert terminal.run("approvals", "list") == ExitStatus.SUCCEEDED
    assert f"{arguments[:120]}…\n" in terminal.out
    assert terminal.run("approvals", "list", "-o", "json") == ExitStatus.SUCCEEDED
    assert json.dumps(arguments) in terminal.out


def test_names_of_the_list_are_what_approve_takes(terminal, cluster):
    put(cluster, CALL, {**CALL, "call": "6a1e3c4d-2"})
    assert terminal.run("approvals", "list", "-o", "name") == ExitStatus.SUCCEEDED
    assert terminal.out == "5f0d2b3c-1\n6a1e3c4d-2\n"


@pytest.mark.parametrize(
    ("expires_at", "text"),
    [
        ("2030-01-01T00:12:00Z", "in 12m"),
        ("2029-12-31T23:00:00Z", "expired"),
        ("tomorrow", "tomorrow"),
        ("2030-01-01T00:12:00", "2030-01-01T00:12:00"),
    ],
)
def test_list_says_how_long_a_call_waits(terminal, cluster, expires_at, text):
    put(cluster, {**CALL, "expiresAt": expires_at})
    assert terminal.run("approvals", "list") == ExitStatus.SUCCEEDED
    assert f"write_file  {text} " in terminal.out


@pytest.mark.parametrize(
    ("options", "place"),
    [
        ((), "namespace demo; `kais approvals list -A` looks in all namespaces"),
        (("-A",), "any namespace"),
    ],
)
def test_a_list_without_calls_says_so_and_where_to_look(terminal, options, place):
    assert terminal.run("approvals", "list", *options) == ExitStatus.SUCCEEDED
    assert (terminal.out, terminal.err) == ("", f"no call waits for an approval in {place}\n")


def test_list_names_the_cell_that_wants_to_make_the_call(terminal, cluster):
    put(cluster, CALL, {**CALL, "call": "6a1e3c4d-2", "cell": "critic-0"})
    assert terminal.run("approvals", "list") == ExitStatus.SUCCEEDED
    rows = [line.split()[2:4] for line in terminal.out.splitlines()]
    assert rows == [["CELL", "CALL"], ["(entry)", "5f0d2b3c-1"], ["critic-0", "6a1e3c4d-2"]]


@pytest.mark.parametrize("verb", ["approve", "reject"])
def test_decision_that_can_have_no_effect_is_refused(terminal, cluster, verb):
    body = objects.mission(phase="Running", attempt=1)
    message = "a run can have 100 approved calls, and this one has"
    body["status"]["approvals"] = [CALL]
    body["status"]["conditions"] = [
        {"type": "Succeeded", "status": "Unknown", "message": message,
         "reason": "ApprovalLimitReached", "lastTransitionTime": "2026-03-01T12:00:00Z"}
    ]  # fmt: skip
    cluster.put(body)
    assert terminal.run("approvals", verb, "5f0d") == ExitStatus.FAILED
    assert message in " ".join(terminal.err.split())
    metadata = cluster.get("Mission", "demo", body["metadata"]["name"])["metadata"]
    assert labels.APPROVAL not in metadata.get("annotations", {})


def test_approve_names_call_arguments_and_the_user(terminal, cluster):
    name = put(cluster, CALL)
    assert terminal.run("approvals", "approve", "5f0d") == ExitStatus.SUCCEEDED
    annotations = cluster.get("Mission", "demo", name)["metadata"]["annotations"]
    assert annotations[labels.APPROVAL_BY] == cluster.user_name()
    record = json.loads(annotations[labels.APPROVAL])
    assert (record["call"], record["sha256"]) == (CALL["call"], CALL["sha256"])
    assert record["decision"] == "approve"
    assert terminal.err.endswith("write_file (5f0d2b3c-1) approved\n")


def test_reject_passes_the_reason_on(terminal, cluster):
    name = put(cluster, CALL)
    assert terminal.run("approvals", "reject", "5f0d", "--reason", "not now") == 0
    annotations = cluster.get("Mission", "demo", name)["metadata"]["annotations"]
    record = json.loads(annotations[labels.APPROVAL])
    assert (record["decision"], record["reason"]) == ("deny", "not now")


@pytest.mark.parametrize(("verb", "participle"), [("approve", "approved"), ("reject", "rejected")])
def test_dry_run_of_a_decision_says_that_nothing_changed(terminal, cluster, verb, participle):
    name = put(cluster, CALL)
    assert terminal.run("approvals", verb, "5f0d", "--dry-run") == ExitStatus.SUCCEEDED
    assert terminal.err.endswith(f"(5f0d2b3c-1) {participle} (dry run, nothing changed)\n")
    metadata = cluster.get("Mission", "demo", name)["metadata"]
    assert labels.APPROVAL not in metadata.get("annotations", {})


def test_unknown_call_is_refused(terminal, cluster):
    put(cluster, CALL)
    assert terminal.run("approvals", "approve", "zzz") == ExitStatus.FAILED
    assert terminal.err == (
        "error: no call of namespace demo that waits begins with 'zzz';"
        " see `kais approvals list -A`\n"
    )


def test_second_decision_keeps_the_first_until_a_cell_has_stored_it(terminal, cluster):
    name = put(cluster, CALL, {**CALL, "call": "6a1e3c4d-2"})
    assert terminal.run("approvals", "approve", "5f0d") == ExitStatus.SUCCEEDED
    assert terminal.run("approvals", "reject", "6a1e") == ExitStatus.SUCCEEDED
    text = cluster.get("Mission", "demo", name)["metadata"]["annotations"][labels.APPROVAL]
    decided = {each.call: each.decision for each in approvals.parse_decisions(text, "ana")}
    assert decided == {"5f0d2b3c-1": "approve", "6a1e3c4d-2": "deny"}


def test_decision_of_another_person_is_not_replaced_before_a_cell_has_stored_it(terminal, cluster):
    put(cluster, CALL, {**CALL, "call": "6a1e3c4d-2"})
    assert terminal.run("approvals", "approve", "5f0d") == ExitStatus.SUCCEEDED
    cluster.user = "bob"
    assert terminal.run("approvals", "reject", "6a1e") == ExitStatus.FAILED
    assert "has not yet stored what" in terminal.err
    assert "try again in a few seconds" in terminal.err


def test_decision_that_a_cell_has_stored_is_replaced(terminal, cluster):
    name = put(cluster, CALL, {**CALL, "call": "6a1e3c4d-2"})
    assert terminal.run("approvals", "approve", "5f0d") == ExitStatus.SUCCEEDED
    body = cluster.get("Mission", "demo", name)
    body["status"]["approvals"][0] |= {"outcome": "approved", "by": "ana"}
    cluster.put(body)
    cluster.user = "bob"
    assert terminal.run("approvals", "reject", "6a1e") == ExitStatus.SUCCEEDED
    annotations = cluster.get("Mission", "demo", name)["metadata"]["annotations"]
    assert annotations[labels.APPROVAL_BY] == "bob"
    assert json.loads(annotations[labels.APPROVAL])["call"] == "6a1e3c4d-2"
