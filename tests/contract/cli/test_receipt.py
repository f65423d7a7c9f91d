"""`kais receipt` against the real service."""

import json


def recalled(shell):
    """Store a fact, recall it, and return the receipt and the fact.

    The service stores receipts in the background, before the next write.
    """
    fact = shell("add", "The ferry leaves at noon.", "--scope", shell.realm).strip()
    answer = json.loads(
        shell("recall", "when does the ferry leave", "--scope", shell.realm, "-o", "json")
    )
    shell("add", "The lamp is green.", "--scope", f"{shell.realm}-elsewhere")
    return answer["receipt"], fact


def run(shell, *arguments):
    assert shell.terminal.run("receipt", *arguments, "-n", shell.namespace) == 0, shell.terminal.err
    return shell.terminal.out


def test_show_has_the_question_and_the_facts_with_their_ranks(shell):
    receipt, fact = recalled(shell)
    page = run(shell, "show", receipt)
    assert page.startswith(f"receipt {receipt}, of ")
    assert "  query\n    when does the ferry leave\n" in page
    assert "RANK  SCORE" in page
    assert fact in page
    assert "The ferry leaves at noon." in page
    assert run(shell, "show", receipt, "-o", "name") == f"{fact}\n"


def test_replay_says_that_the_answer_is_the_same(shell):
    receipt, _ = recalled(shell)
    page = run(shell, "replay", receipt)
    assert page.startswith("the same recall as of ")
    assert page.endswith(" returns the same 1 fact, in the same order\n")


def test_diff_shows_a_fact_that_is_no_longer_returned(shell):
    receipt, fact = recalled(shell)
    shell("retract", fact, "--reason", "sunk")
    page = run(shell, "diff", receipt)
    assert page.startswith("the same recall now returns 0 facts, and not the same:\n")
    assert "RANK THEN  RANK NOW" in page
    assert f"1          not returned  {fact}" in page


def test_an_unknown_receipt_is_refused(shell):
    terminal = shell.terminal
    unknown = "01a20271-baae-74f2-a8ca-83ecb715fd90"
    assert terminal.run("receipt", "show", unknown, "-n", shell.namespace) == 1
    assert "receipt" in terminal.err
