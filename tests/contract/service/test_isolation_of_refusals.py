"""Refusals tell nothing of what is out of sight: it is refused like what is not there."""

from __future__ import annotations

from typing import Any

import pytest

from tests.contract.service.callers import PEER
from tests.contract.service.invisible_data import MISSING, WORD, Look, World, get
from tests.knowledge_builders import LEAD, TEAM

# Each with an id that is hidden from the peer, and then with one that nobody has.
ABOUT_A_FACT: list[Look] = [
    *get(
        *(
            f"/v1/facts/{{hidden}}{end}"
            for end in ("", "/history", "/links", "/neighbors", "/why", "/impact")
        )
    ),
    *(
        ("POST", f"/v1/facts/{{hidden}}:{verb}", {"reason": "x"})
        for verb in (
            "correct", "confirm", "retract", "restore", "promote", "approve", "reject", "undo",
            "erase",
        )
    ),
    ("POST", "/correct", {"factId": "{hidden}", "reason": "x"}),
    ("POST", "/v1/links", {"from": "{own}", "to": "{hidden}", "type": "related"}),
    ("POST", "/v1/links", {"from": "{hidden}", "to": "{own}", "type": "related"}),
    ("DELETE", "/v1/links?from={own}&to={hidden}", None),
    ("POST", "/v1/usage", {"uses": [{"fact": "{hidden}", "kind": "applied"}]}),
    ("GET", "/v1/receipts/{receipt}:explain?fact={hidden}", None),
]  # fmt: skip
ABOUT_A_RUN: list[Look] = [
    *get("/v1/runs/{run_}", "/v1/runs/{run_}/episodes", "/v1/extractions/{run_}"),
    ("POST", "/v1/episodes", {"run_id": "{run_}", "episodes": [{"type": "error", "content": "x"}]}),
    ("POST", "/v1/extractions", {"run_id": "{run_}"}),
    ("POST", "/v1/recall", {"query": "x", "run": "{run_}"}),
    ("POST", "/v1/facts", {"content": "x", "run": "{run_}"}),
]


class TestRefusals:
    @pytest.mark.parametrize("request_line", ABOUT_A_FACT, ids=lambda look: f"{look[0]} {look[1]}")
    async def test_fact_that_is_hidden_is_refused_as_one_that_is_not_there(
        self, world: World, request_line: Look
    ) -> None:
        await world.hide()
        world.names["hidden"] = world.hidden[0]
        hidden = await world.ask(*request_line)
        world.names["hidden"] = MISSING
        missing = await world.ask(*request_line)
        assert hidden.status_code == missing.status_code
        assert hidden.text.replace(world.hidden[0], MISSING) == missing.text
        assert hidden.headers.keys() == missing.headers.keys()

    @pytest.mark.parametrize("look", ABOUT_A_RUN, ids=lambda look: f"{look[0]} {look[1]}")
    async def test_run_that_is_hidden_is_refused_as_one_that_is_not_there(
        self, world: World, look: Look
    ) -> None:
        await world.hide()
        world.names["run_"] = run_id = f"{WORD}-lead-0"
        hidden = await world.ask(*look)
        world.names["run_"] = "nothing"
        missing = await world.ask(*look)
        assert hidden.status_code == missing.status_code == 404
        assert hidden.text.replace(run_id, "nothing") == missing.text

    async def test_id_of_a_hidden_run_is_taken_in_the_words_of_a_missing_one(
        self, world: World
    ) -> None:
        await world.hide()
        body = {"kind": "session", "namespace": "demo", "scope": PEER}
        response = await world.ask("PUT", f"/v1/runs/{WORD}-lead-0", body)
        missing = await world.ask("GET", "/v1/runs/nothing")
        assert response.text.replace(f"{WORD}-lead-0", "nothing") == missing.text

    async def test_scope_is_refused_by_its_name_alone(self, world: World) -> None:
        await world.hide()
        entries = []
        for path in (LEAD, f"{TEAM}/cell:nobody"):
            requests: list[Look] = [
                *get(f"/v1/scopes/{path}", f"/v1/facts?scope={path}"),
                ("POST", "/v1/recall", {"query": "x", "scopes": [path]}),
                ("POST", "/v1/facts", {"content": "x", "scope": path}),
                ("POST", "/v1/stats:batch", {"scopes": [path]}),
                ("PUT", f"/v1/scopes/{path}", {}),
                ("DELETE", f"/v1/scopes/{path}", None),
                ("POST", f"/v1/scopes/{path}:adopt", None),
            ]
            answers = [await world.ask(*look) for look in requests]
            assert {answer.status_code for answer in answers} == {403}
            entries.append([answer.text.replace(path, "it") for answer in answers])
        assert entries[0] == entries[1]

    async def test_conflict_is_with_what_is_seen_only(self, world: World) -> None:
        await world.hide()
        # What others retracted, named and keyed in scopes of their own stands in nobody's way.
        alias = {"namespace": "ko", "value": WORD}
        key = {"subject": "build", "predicate": "needs"}
        lead_said = {"content": "Java 17", "aliases": [alias], **key}
        world.names["hidden"] = world.hidden[2]
        assert (await world.ask("POST", "/v1/facts", lead_said, caller="stranger")).is_success
        for body in ({"content": f"shared {WORD} 2"}, {**lead_said, "content": "Java 21"}):
            told = await world.ask("POST", "/v1/facts", body)
            assert told.status_code == 201
            assert told.json()["status"] == "created"
            assert (told.json()["superseded"], told.json()["contradicts"]) == ([], [])

    async def test_promoting_into_a_scope_out_of_sight_tells_nothing_of_it(
        self, world: World
    ) -> None:
        key = {"subject": "build", "predicate": "needs"}
        own_fact = await world.ask("POST", "/v1/facts", {"content": "Java 8", **key}, caller="lead")
        path = f"/v1/facts/{own_fact.json()['fact_id']}:promote"
        ways: list[dict[str, Any]] = [
            {"content": "nothing of it", "scope": TEAM},
            {"content": f"Java {WORD}", "scope": TEAM, **key},
            {"content": "Java 8", "scope": TEAM, "force": True, **key},
        ]
        told = []
        for shared in ways:
            await world.ask("POST", "/v1/facts", shared, caller="ada")
            told.append(await world.ask("POST", path, {"reason": "x"}, caller="mover"))
        assert {answer.status_code for answer in told} == {403}
        assert len({answer.text for answer in told}) == 1
        assert told[0].json()["detail"] == f"scope {TEAM} is not accessible to you"

    @pytest.mark.parametrize("verb", ["facts", "recall"])
    async def test_key_that_another_used_is_new_to_everybody_else(
        self, world: World, verb: str
    ) -> None:
        body = {"facts": {"content": WORD}, "recall": {"query": WORD}}[verb]
        mine = {"facts": {"content": "x"}, "recall": {"query": "x"}}[verb]
        key = {"Idempotency-Key": "k"}
        assert (await world.ask("POST", f"/v1/{verb}", body, caller="lead", **key)).is_success
        for given in (mine, body):
            answers = await world.ask(
                "POST", f"/v1/{verb}", given, **{"Idempotency-Key": str(given)}
            )
            assert answers.is_success
        answers = await world.ask("POST", f"/v1/{verb}", mine, **key)
        assert answers.is_success
        assert world.says_nothing(answers.text)
