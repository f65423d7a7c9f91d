"""`kais knowledge graph` at a real service."""

from __future__ import annotations

import json

import pytest

from knowledge_client.client import KnowledgeClient
from knowledge_client.models import AliasSetIn


@pytest.fixture
def graph(shell):
    def run(*arguments, status=0):
        return shell("graph", *arguments, status=status)

    run.terminal, run.realm = shell.terminal, shell.realm
    return run


@pytest.fixture
def ship(graph):
    graph("create", "Ship", "--type", "desired_outcome", "--observation", "The release is out.",
          "--metadata", '{"dueDate": "2026-04-01"}')  # fmt: skip
    graph("create", "now", "--type", "current_reality", "--observation", "Nothing is out.")
    graph("relate", "now", "creates_tension_with", "Ship", "--strength", "0.75")
    yield
    graph("delete", "Ship", "now")


def test_entities_are_created_and_listed_with_their_relations(graph, ship):
    assert [line.split() for line in graph("list").splitlines()] == [
        ["NAME", "TYPE", "SCOPE", "OBSERVATIONS", "FIRST", "OBSERVATION"],
        ["now", "current_reality", graph.realm, "1", "Nothing", "is", "out."],
        ["Ship", "desired_outcome", graph.realm, "1", "The", "release", "is", "out."],
        [],
        ["FROM", "RELATION", "TO", "STRENGTH"],
        ["now", "creates_tension_with", "Ship", "0.75"],
    ]
    assert graph("list", "-o", "name").split() == ["now", "Ship"]


def test_a_list_states_what_it_leaves_out(graph, ship):
    assert "now" in graph("list", "--limit", "1")
    assert "there is more: use --all, or --cursor " in graph.terminal.err
    assert "at most 200 entities, 500 observations of each, and 1,000" in graph.terminal.err
    graph("list", "--limit", "1", "--all")
    assert "there is more" not in graph.terminal.err


def test_entities_are_opened_by_their_names(graph, ship):
    assert graph("open", "Ship", "now").splitlines() == [
        "Ship  (desired_outcome)",
        f"  scope: {graph.realm}",
        '  metadata: {"dueDate": "2026-04-01"}',
        "  - The release is out.",
        "",
        "now  (current_reality)",
        f"  scope: {graph.realm}",
        "  - Nothing is out.",
        "",
        "FROM  RELATION              TO    STRENGTH",
        "now   creates_tension_with  Ship  0.75",
    ]
    graph("open", "nobody", status=1)
    assert graph.terminal.err == "entity 'nobody' does not exist or is not visible to you\n"


def test_a_search_reads_names_types_and_observations(graph, ship):
    found_entities = json.loads(graph("search", "IS OUT", "-o", "json"))
    assert sorted(graph_item["name"] for graph_item in found_entities["entities"]) == [
        "Ship",
        "now",
    ]
    assert [graph_item["relationType"] for graph_item in found_entities["relations"]] == [
        "creates_tension_with"
    ]
    assert graph("search", "current_", "-o", "name") == "now\n"
    assert graph("search", "nowhere") == ""
    assert graph.terminal.err == "no entity has this text\n"
    graph("search", "", status=2)


def test_observations_are_added_and_deleted(graph, ship):
    assert graph("observe", "now", "A draft exists.", "Nothing is out.") == "added 1 observation\n"
    assert graph.terminal.err == "1 of 2 exist already\n"
    assert graph("forget", "now", "Nothing is out.") == "deleted 1 observation\n"
    (now,) = json.loads(graph("open", "now", "-o", "json"))["entities"]
    assert now["observations"] == ["A draft exists."]
    graph("observe", "nobody", "x", status=1)
    assert "entity 'nobody' does not exist or is not visible to you" in graph.terminal.err


def test_what_exists_or_is_missing_is_not_changed(graph, ship):
    assert graph("create", "now", "--type", "other") == ""
    assert graph.terminal.err == "entity 'now' exists already and was not changed\n"
    assert graph("relate", "now", "creates_tension_with", "Ship") == "created 0 relations\n"
    assert graph("unrelate", "now", "creates_tension_with", "Ship") == "deleted 1 relation\n"
    assert graph("delete", "now", "nobody") == "deleted 1 entity\n"
    assert graph.terminal.err == "1 of 2 do not exist\n"
    assert graph("list", "-o", "name") == "Ship\n"


@pytest.mark.parametrize("metadata", ["{", "[1]", "null"])
def test_metadata_that_is_no_object_is_a_usage_error(graph, metadata):
    graph("create", "x", "--type", "y", "--metadata", metadata, status=2)
    assert "error: --metadata" in graph.terminal.err


def test_aliases_are_listed_by_their_namespace_and_prefix(shell, ship):
    rows = [line.split() for line in shell("aliases", "entity").splitlines()]
    assert [(row[0], row[2]) for row in rows] == [
        ("ALIAS", "SCOPE"), ("Ship", shell.realm), ("now", shell.realm)
    ]  # fmt: skip
    assert shell("aliases", "entity", "--prefix", "n", "-o", "name") == "alias:entity:now\n"
    (alias,) = json.loads(shell("aliases", "entity", "--prefix", "Sh", "-o", "json"))
    assert (alias["value"], alias["scope"], alias["factId"]) == ("Ship", shell.realm, rows[1][1])
    shell("aliases", "entity", "--limit", "1")
    assert "there are more aliases; use --all or a longer --prefix" in shell.terminal.err
    shell("aliases", "entity", "--limit", "1", "--all")
    assert "more aliases" not in shell.terminal.err
    shell("aliases", "unknown")
    assert "no aliases in namespace unknown match" in shell.terminal.err


@pytest.mark.parametrize(
    "value",
    [
        "a/b ~1",
        "two\nlines\r",
        " edges ",
        "\0\x1b[31m\x7f\x85",
        "~{a}",
        "\u2028é\U0010ffff",
        "-a:b",
    ],
)
def test_a_listed_alias_can_be_typed_back_whatever_characters_it_has(shell, service, value):
    fact_id = shell("add", "The port is 80.", "-o", "name").strip()
    with KnowledgeClient(url=service) as client:
        client.set_alias(fact_id, AliasSetIn(namespace="file", value=value, reason="its name"))
    (line,) = shell("aliases", "file", "-o", "name").splitlines()
    assert line.isprintable()
    assert shell("show", line, "-o", "name").strip() == fact_id
    shell("alias", "free", fact_id, line, "--reason", "wrong")
    assert shell("aliases", "file", "-o", "name") == ""


def test_an_alias_is_added_moved_and_freed(shell):
    ids = {
        text: shell("add", text, "-o", "name").strip()
        for text in ("The old port is 80.", "The new port is 443.")
    }
    old, new = ids.values()
    why = ("--reason", "for the issue")
    assert shell("alias", "add", old, "alias:ko-issue:a~1b", *why) == (
        f"{old}: has alias:ko-issue:a~1b\n"
    )
    (alias,) = json.loads(shell("aliases", "ko-issue", "-o", "json"))
    assert (alias["value"], alias["factId"]) == ("a/b", old)
    shell("alias", "add", new, "alias:ko-issue:a~1b", *why, status=1)
    assert f"alias:ko-issue:a~1b is a name of fact {old}; take another" in shell.terminal.err
    shell("alias", "move", new, "alias:ko-issue:a~1b", *why)
    assert shell("show", "alias:ko-issue:a~1b", "-o", "name").strip() == new
    assert shell("alias", "free", new, "alias:ko-issue:a~1b", *why) == (
        f"{new}: alias:ko-issue:a~1b is free\n"
    )
    shell("alias", "free", new, "alias:ko-issue:a~1b", *why, status=1)
    assert f"alias:ko-issue:a~1b is not a name of fact {new}" in shell.terminal.err
    shell("alias", "add", new, "ko-issue:a", *why, status=2)
    assert "write alias:<namespace>:<value>" in shell.terminal.err
