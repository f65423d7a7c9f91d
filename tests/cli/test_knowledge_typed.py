"""What people type about knowledge: moments, scopes, ids, texts from a pipe."""

from datetime import UTC, datetime

import pytest

from kais_cli import argument_parsing, errors, settings
from kais_cli.exit_status import ExitStatus
from kais_cli.knowledge import scope_parsing, time_parsing

NOW = datetime(2030, 1, 10, 9, 30, tzinfo=UTC)
ID = "01a00000-0000-7000-8000-000000000000"


@pytest.mark.parametrize(
    ("typed", "moment"),
    [
        ("2029-12-31", datetime(2029, 12, 31, tzinfo=UTC)),
        ("2029-12-31T08:30", datetime(2029, 12, 31, 8, 30, tzinfo=UTC)),
        ("2029-12-31 08:30:15", datetime(2029, 12, 31, 8, 30, 15, tzinfo=UTC)),
        ("2029-12-31T08:30:00Z", datetime(2029, 12, 31, 8, 30, tzinfo=UTC)),
        ("2029-12-31t08:30:00.5z", datetime(2029, 12, 31, 8, 30, 0, 500_000, tzinfo=UTC)),
        ("2029-12-31T08:30+02:00", datetime(2029, 12, 31, 6, 30, tzinfo=UTC)),
        ("2030-01-01T00:30+0100", datetime(2029, 12, 31, 23, 30, tzinfo=UTC)),
        ("now", NOW),
        ("Today", datetime(2030, 1, 10, tzinfo=UTC)),
        ("yesterday", datetime(2030, 1, 9, tzinfo=UTC)),
        ("3d ago", datetime(2030, 1, 7, 9, 30, tzinfo=UTC)),
        ("90 minutes ago", datetime(2030, 1, 10, 8, 0, tzinfo=UTC)),
        ("1 week ago", datetime(2030, 1, 3, 9, 30, tzinfo=UTC)),
    ],
)
def test_moments_are_read_in_every_usual_spelling(typed, moment):
    assert time_parsing.parse(typed, option="--at", now=NOW) == moment


@pytest.mark.parametrize(
    ("typed", "hint"),
    [
        ("31.12.2029", "write the year first, as 2026-05-31"),
        ("12/31/2029", "write the year first, as 2026-05-31"),
        ("2029-02-30", "yesterday or 3d ago"),
        ("soon", "yesterday or 3d ago"),
        ("", "yesterday or 3d ago"),
        ("3 fortnights ago", "yesterday or 3d ago"),
        ("999999 weeks ago", "yesterday or 3d ago"),
        ("0001-01-01T00:00+14:00", "yesterday or 3d ago"),
    ],
)
def test_what_is_no_moment_is_refused_with_how_to_write_one(typed, hint):
    with pytest.raises(errors.UsageError) as refused:
        time_parsing.parse(typed, option="--known-at", now=NOW)
    assert str(refused.value).startswith(f"--known-at {typed!r} is not a day or time; ")
    assert str(refused.value).endswith(hint)


@pytest.mark.parametrize(
    ("typed", "suggestion"),
    [
        ("realm:demo/team:x", "realm:demo/formation:x"),
        ("Realm:demo", "realm:demo"),
        ("realm/demo/formation/x", "realm:demo/formation:x"),
        ("formation:x", "realm:mine/formation:x"),
        ("fromation:x/cell:y", "realm:mine/formation:x/cell:y"),
        ("demo/doctor", "realm:demo/formation:doctor"),
        ("namespace:demo", "realm:demo"),
        ("My Blueprint", "realm:mine/formation:my-blueprint"),
        ("Platform", "platform"),
    ],
)
def test_misspelt_scope_is_refused_with_what_was_meant(typed, suggestion):
    with pytest.raises(errors.UsageError) as refused:
        scope_parsing.parse_scope(typed, namespace="mine")
    assert str(refused.value).endswith(f"; did you mean {suggestion}?")


@pytest.mark.parametrize("typed", ["::", "realm:", "realm:demo/formation", "../..", "cell:x"])
def test_scope_that_is_like_none_gets_no_advice_that_is_wrong(typed):
    with pytest.raises(errors.UsageError) as refused:
        scope_parsing.parse_scope(typed, namespace="mine")
    assert "is not a " in str(refused.value)
    for term in str(refused.value).partition("did you mean ")[2].rstrip("?").split():
        assert scope_parsing.parse_scope(term, namespace="mine") == term


@pytest.mark.parametrize(
    ("typed", "nearest"),
    [
        ("realm:dmo", "realm:demo"),
        ("realm:demo/formation:doktor", "realm:demo/formation:doctor"),
        ("realm:default/formation:nowhere", None),
        ("realm:other", None),
    ],
)
def test_nearest_scope_is_one_of_a_like_name(typed, nearest):
    known_names = ["platform", "realm:demo", "realm:demo/formation:doctor"]
    assert scope_parsing.closest_path(typed, known_names) == nearest


def test_empty_scope_is_no_way_to_say_all(terminal):
    assert terminal.run("knowledge", "list", "--scope", "") == ExitStatus.USAGE
    assert terminal.err == "error: --scope is empty; leave it out, or name a scope\n"


@pytest.mark.parametrize("typed", [ID, ID.upper(), "alias:ko:KO-shop-001", "alias:entity:Ada L."])
def test_ids_and_names_of_facts_are_taken(typed):
    assert argument_parsing.fact_id(f" {typed} ").casefold() == typed.casefold()


@pytest.mark.parametrize("typed", ["", "01a2", "../../etc", "a b", "alias:ko", "alias::x", "-"])
@pytest.mark.parametrize("verb", ["show", "why", "impact", "confirm"])
def test_what_is_no_id_is_refused_before_anything_is_asked(terminal, knowledge, verb, typed):
    assert terminal.run("knowledge", verb, "--", typed) == ExitStatus.USAGE
    assert f"error: {typed!r} is not a fact ID: it has 36 characters" in terminal.err
    assert knowledge.requests == []


@pytest.fixture
def direct(terminal, knowledge):
    terminal.settings = settings.Settings(knowledge_url="http://127.0.0.1:8000")
    knowledge.answers["POST /v1/facts"] = {"fact_id": "f9", "status": "created"}
    return terminal


def test_fact_comes_from_a_pipe(direct, knowledge):
    direct.stdin = "The registry moved.\nIt is at :5001 now.\n"
    assert direct.run("knowledge", "add", "-") == 0
    assert knowledge.sent()["content"] == "The registry moved.\nIt is at :5001 now."


def test_pipe_that_is_too_long_is_refused_before_it_is_sent(direct, knowledge):
    direct.stdin = "x" * 20_000
    assert direct.run("knowledge", "add", "-") == ExitStatus.USAGE
    assert direct.err == "error: content: has 20,000 characters; the maximum is 8,192\n"
    assert knowledge.requests == []


def test_pipe_above_the_maximum_of_all_commands_is_refused_and_not_cut(direct, knowledge):
    act = "- {op: remember, fact: {content: The harbour opens at six.}}\n"
    direct.stdin = "reason: many\nacts:\n" + act * 20_000
    assert direct.run("knowledge", "perform", "-f", "-") == ExitStatus.USAGE
    assert direct.err == (
        "error: standard input has more than 1,000,000 characters; send less at once\n"
    )
    assert knowledge.requests == []


@pytest.mark.parametrize("arguments", [("add", "-"), ("recall", "-"), ("recall", "  ")])
def test_empty_text_is_refused_before_it_is_sent(direct, knowledge, arguments):
    assert direct.run("knowledge", *arguments) == ExitStatus.USAGE
    assert "is empty; " in direct.err
    assert knowledge.requests == []


def test_namespace_that_is_told_is_where_a_fact_goes_without_a_cluster(direct, knowledge):
    direct.run("knowledge", "add", "x", "-n", "harbour")
    assert knowledge.sent()["scope"] == "realm:harbour"
    direct.run("knowledge", "add", "x")
    assert "scope" not in knowledge.sent()


def test_half_a_key_is_refused(direct, knowledge):
    assert direct.run("knowledge", "add", "x", "--subject", "crane") == ExitStatus.USAGE
    assert direct.err == "error: --subject and --predicate form one key; set both or neither\n"


@pytest.mark.parametrize(
    ("option", "typed", "hint"),
    [("--lifecycle", "retract", "retracted"), ("--source", "Imports", "import")],
)
def test_word_that_is_none_of_a_few_is_refused_with_the_nearest(direct, option, typed, hint):
    assert direct.run("knowledge", "list", option, typed) == ExitStatus.USAGE
    assert f"{option} {typed!r} is not one of " in direct.err
    assert direct.err.endswith(f"; did you mean {hint}?\n")
