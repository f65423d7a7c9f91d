import pytest

from kais_operator.planning import message_clauses


@pytest.mark.parametrize(
    ("text", "clause", "message"),
    [
        ("the fix is missing", "the next waits", "the fix is missing; the next waits"),
        ("The fix is missing.", "the next waits", "The fix is missing. The next waits"),
        ("which node?", "the next waits", "which node? The next waits"),
        ("Never!  \n", "it waits", "Never! It waits"),
        ("no…", "it waits", "no… It waits"),
        ("fix it;", "it waits", "fix it; it waits"),
        ("it says why:", "it waits", "it says why; it waits"),
        ("see it.", "kais.io/review is not JSON", "see it. kais.io/review is not JSON"),
        ("see it.", "Cell/demo/x is not ready", "see it. Cell/demo/x is not ready"),
        ("", "answer with yes", "answer with yes"),
        ("done", "", "done"),
    ],
)  # fmt: skip
def test_clause_follows_text_of_another_author_with_one_mark(text, clause, message):
    assert message_clauses.append(text, clause) == message


@pytest.mark.parametrize(
    ("text", "output", "message"),
    [
        ("exit code 3", "no such file", "exit code 3: no such file"),
        ("critic-0: Name it.", "line 2 fails", "critic-0: Name it. line 2 fails"),
        ("exit code 3:", "no", "exit code 3: no"),
        ("exit code 3", "", "exit code 3"),
    ],
)
def test_output_follows_unchanged(text, output, message):
    assert message_clauses.introduce(text, output) == message
