"""`kais knowledge perform` against the real service: several acts, all or none, one undo."""

from __future__ import annotations

import json

import pytest

from kais_cli.exit_status import ExitStatus

ACTS = """
reason: the crane was weighed
acts:
  - act: remember
    fact: {content: The crane weighs forty tonnes., tags: [crane], expires_at: 2030-10-01}
  - act: remember
    fact: {content: The crane stands on rails., about: act:0}
  - act: link
    link: {from: act:0, to: act:1, type: mentions}
  - act: set_alias
    fact: act:0
    alias: {namespace: crane, value: weight}
"""


@pytest.fixture
def perform(shell, tmp_path):
    """Write a file and perform it."""

    def run(text, *options, status=0):
        path = tmp_path / "acts.yaml"
        path.write_text(text)
        out = shell("perform", "-f", str(path), *options, status=status)
        return out if status == 0 else shell.terminal.err.replace(str(path), "acts.yaml")

    return run


def contents(shell):
    return sorted(
        fact["content"] for fact in json.loads(shell("list", "--scope", shell.realm, "-o", "json"))
    )


def test_acts_of_a_file_are_one_operation_with_one_undo(shell, perform):
    lines = perform(ACTS).splitlines()
    assert [line.split()[:3] for line in lines] == [
        ["NO", "ACT", "STATUS"],
        ["0", "remember", "created"],
        ["1", "remember", "created"],
        ["2", "link", "linked"],
        ["3", "set_alias", "alias_set"],
    ]
    assert contents(shell) == ["The crane stands on rails.", "The crane weighs forty tonnes."]
    shown = shell("show", "alias:crane:weight")
    assert f" in {shell.realm}\n" in shown
    assert "the crane was weighed" in shown
    shell("undo", lines[1].split()[3], "--reason", "wrong crane")
    assert contents(shell) == []


def test_an_act_that_is_refused_stores_nothing_and_is_named(shell, perform):
    acts = ACTS + "  - {act: retract, fact: 01a20271-baae-74f2-a8ca-83ecb715fd90}\n"
    message = perform(acts, status=ExitStatus.FAILED)
    assert "act 4: fact 01a20271-baae-74f2-a8ca-83ecb715fd90 does not exist" in message
    assert contents(shell) == []


def test_revisions_and_removals_are_acts_too(shell, perform):
    perform(ACTS)
    later = """
reason: it was moved
acts:
  - act: revise
    fact: alias:crane:weight
    changes: {content: The crane weighs thirty tonnes., expires_at: null}
  - {act: unlink, from: act:0, to: alias:crane:rails}
  - {act: remove_alias, fact: act:0, alias: {namespace: crane, value: weight}}
"""
    rails = next(
        fact["id"]
        for fact in json.loads(shell("list", "--scope", shell.realm, "-o", "json"))
        if "rails" in fact["content"]
    )
    shell("alias", "add", rails, "alias:crane:rails", "--reason", "its place")
    output = perform(
        later.replace("to: alias:crane:rails", "to: alias:crane:rails, type: mentions")
    )
    assert [line.split()[2] for line in output.splitlines()[1:]] == [
        "revised", "unlinked", "alias_removed",
    ]  # fmt: skip
    shown = shell("show", output.splitlines()[1].split()[3])
    assert "The crane weighs thirty tonnes." in shown
    assert "  expires " not in shown


def test_names_and_json_are_for_programs(shell, perform):
    names = perform(ACTS, "-o", "name").split()
    results = json.loads(perform(ACTS, "-o", "json"))["results"]
    assert [results[0]["status"], results[0]["factId"]] == ["confirmed", names[0]]
    assert len(names) == 2


def test_the_reason_of_the_option_replaces_that_of_the_file(shell):
    shell.terminal.stdin = '{"acts": [{"act": "remember", "fact": {"content": "It rains."}}]}'
    fact = shell("perform", "-f", "-", "--reason", "seen", "-o", "name").strip()
    assert "It rains." in shell("show", fact)


INVALID = {
    "a file without acts": ("reason: x\n", "acts.yaml is not an operation: acts: is missing"),
    "an empty list of acts": ("reason: x\nacts: []\n", "acts.yaml is not an operation: acts: "),
    "a file without a reason": (
        "acts: [{act: retract, fact: alias:a:b}]\n",
        "acts.yaml is not an operation: reason: is missing",
    ),
    "an unknown act": ("reason: x\nacts: [{act: forget}]\n", "Input tag 'forget' found"),
    "a misspelt field": (
        "reason: x\nacts: [{act: remember, fact: {content: a, contnet: b}}]\n",
        "acts.0.remember.fact.contnet: is no field; check the spelling",
    ),
    "an act without its fact": (
        "reason: x\nacts: [{act: retract}]\n", "acts.0.retract.fact: is missing",
    ),
    "a list": ("- reason: x\n", "acts.yaml must be one object with `reason` and `acts`"),
    "two documents": ("reason: x\n---\nreason: y\n", "acts.yaml must be one object"),
    "an empty file": ("", "acts.yaml must be one object with `reason` and `acts`"),
    "no YAML": ("reason: [\n", "cannot read acts.yaml:"),
}  # fmt: skip


@pytest.mark.parametrize(("text", "message"), INVALID.values(), ids=INVALID)
def test_an_invalid_file_is_refused_before_anything_is_sent(perform, shell, text, message):
    assert message in perform(text, status=ExitStatus.USAGE)
    assert contents(shell) == []


def test_an_act_that_refers_to_a_later_one_is_refused(perform):
    text = "reason: x\nacts: [{act: retract, fact: 'act:1'}, {act: retract, fact: 'alias:a:b'}]\n"
    message = "acts[0].fact: act:1 is no earlier act"
    assert message in perform(text, status=ExitStatus.USAGE)


def test_a_missing_file_is_named(shell):
    shell("perform", "-f", "missing.yaml", status=ExitStatus.USAGE)
    assert "cannot read missing.yaml: No such file or directory" in shell.terminal.err
