"""A store file of an earlier version: later code opens, verifies, rebuilds and answers as then.

`record_store.py` says how the files were made, and what to do when a test here fails.
"""

from __future__ import annotations

import io
import json
import lzma
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from knowledge_service.domain.run_reports import RunKey
from knowledge_service.extraction import job
from knowledge_service.search import ranker_version
from knowledge_service.store.sqlite import projection_rebuild, projections
from knowledge_service.store.sqlite.db import connection
from knowledge_service.store.sqlite.maintenance import exports, offline_rebuild
from tests.contract.compatibility import store_life
from tests.contract.compatibility.record_store import (
    EXPORT,
    answers,
    frozen_answers,
    frozen_store,
)
from tests.contract.compatibility.serving import ANSWERED, RECORDED, TEAM, Service

ADDED_EVENTS: frozenset[str] = frozenset(
    {"alias.restated", "extraction.called", "extraction.model_chosen", "extraction.settled"}
)
"""Types of events that came after the file; each belongs into `store_life.py` as well."""
ADDED_COLUMNS: Mapping[str, frozenset[str]] = {}
"""Columns of exported tables that came after the file, by table."""


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return frozen_store(tmp_path / "store.db")


def lines_of(export: bytes) -> list[dict[str, Any]]:
    return [json.loads(line) for line in export.splitlines()]


def frozen_export() -> bytes:
    return lzma.decompress(EXPORT.read_bytes())


def export_of(path: Path) -> bytes:
    out = io.BytesIO()
    exports.export(path, out)
    return out.getvalue()


def content(export: bytes) -> tuple[list[Any], list[Any]]:
    """Give the rows of an export without the columns that were added, and its events.

    The value of the row `index` is left out, the version of an index that is built when a file is
    opened.
    """
    _, *between, _ = lines_of(export)
    rows = [
        (line["table"], {
            name: value for name, value in line["row"].items()
            if name not in ADDED_COLUMNS.get(line["table"], ())
            and not (line["row"].get("key") == "index" and name == "value")
        })
        for line in between
        if "table" in line
    ]  # fmt: skip
    return rows, [line for line in between if "event" in line]


async def upgraded(path: Path) -> None:
    """Open a file once, which migrates it."""
    async with Service(path, ANSWERED):
        pass


def test_every_type_of_event_is_in_the_frozen_log() -> None:
    found = {line["event"][2] for line in lines_of(frozen_export()) if "event" in line}
    assert found == set(projections._HANDLERS) - ADDED_EVENTS


async def test_a_file_of_an_earlier_version_is_upgraded_and_verifies(store: Path) -> None:
    events = sum("event" in line for line in lines_of(frozen_export()))
    await upgraded(store)
    report = offline_rebuild.verify(store)
    assert (report.problems, report.events) == ((), events)


async def test_a_rebuild_of_an_earlier_versions_log_makes_the_same_tables_to_the_byte(
    store: Path,
) -> None:
    await upgraded(store)
    db = connection.open_writer(store)
    fingerprint_before = projection_rebuild.fingerprint(db)
    db.close()
    assert offline_rebuild.rebuild(store).changed == ()
    db = connection.open_writer(store)
    assert projection_rebuild.fingerprint(db) == fingerprint_before
    db.close()


async def test_an_earlier_versions_file_is_exported_as_it_was_then(store: Path) -> None:
    await upgraded(store)
    assert content(export_of(store)) == content(frozen_export())


async def test_an_earlier_versions_export_is_imported_and_exported_again(tmp_path: Path) -> None:
    path = tmp_path / "imported.db"
    moved = exports.import_export(path, io.BytesIO(frozen_export()))
    rows, events = content(frozen_export())
    assert (moved.rows, moved.events) == (len(rows), len(events))
    assert offline_rebuild.verify(path).problems == ()
    assert content(export_of(path)) == (rows, events)


class TestAnswers:
    """Requests about an earlier version's file are answered word by word as that version did."""

    async def test_of_the_upgraded_file_are_those_of_then(self, store: Path) -> None:
        assert_same(await answers(store), frozen_answers())

    async def test_of_the_imported_export_are_those_of_then(self, tmp_path: Path) -> None:
        path = tmp_path / "imported.db"
        exports.import_export(path, io.BytesIO(frozen_export()))
        assert_same(await answers(path), frozen_answers())

    async def test_of_the_rebuilt_file_are_those_of_then(self, store: Path) -> None:
        offline_rebuild.rebuild(store)
        assert_same(await answers(store), frozen_answers())


def assert_same(recorded_objects: Mapping[str, Any], frozen: Mapping[str, Any]) -> None:
    for request, answer in frozen.items():
        assert recorded_objects[request] == answer, (
            f"{request} is answered otherwise than by the version that wrote the file. When that"
            " is meant, list it in the CHANGELOG and run"
            " `python -m tests.contract.compatibility.record_store --answers`"
        )
    assert recorded_objects.keys() == frozen.keys()


async def test_replays_of_an_earlier_versions_receipts_name_its_ranker_as_a_reason(
    store: Path,
) -> None:
    places = [
        name.split()[2]
        for name, answer in frozen_answers().items()
        if "/v1/receipts/" in name and name.endswith(":replay") and answer["status"] == 200
    ]
    assert len(places) >= 2 * len(store_life.QUERIES)
    reason = f"the ranker was fused-3-dcf887ca8d6c and is now {ranker_version.RANKER}"
    async with Service(store, ANSWERED) as service:
        for place in places:
            replayed = (await service.ask("operator", "GET", place)).body
            recorded = (await service.ask("operator", "GET", place.removesuffix(":replay"))).body
            assert replayed["reasons"][0] == reason
            assert replayed["equal"] is (replayed["moved"] == [])
            came_or_left = {
                moved["fact"]
                for moved in replayed["moved"]
                if None in (moved["rank_then"], moved["rank_now"])
            }
            assert set(replayed["facts"]) ^ set(recorded["facts"]) == came_or_left


async def test_a_request_made_before_the_upgrade_is_not_done_twice_after_it(store: Path) -> None:
    async with Service(store, RECORDED + timedelta(hours=20)) as service:
        bounds_before = service.store.bounds()
        repeated = await service.ask(*store_life.REPEATED)
        assert repeated.status == 201
        assert service.store.bounds() == bounds_before


async def test_what_an_earlier_version_began_goes_on(store: Path) -> None:
    """Open runs are closed, accepted extractions are done, facts are corrected and promoted."""
    async with Service(store, ANSWERED, step=timedelta(minutes=1)) as service:
        job.run_extraction(service.store, RunKey("realm:demo", "run-4"))
        done = await service.ask("operator", "GET", "/v1/extractions/run-4")
        assert done.body["state"] == "done"
        closing = {"namespace": "demo", "scope": TEAM, "outcome": "Succeeded"}
        closed = await service.ask("operator", "PUT", "/v1/runs/run-10", closing)
        assert (closed.status, closed.body["outcome"]) == (200, "Succeeded")
        facts = (await service.ask("keeper", "GET", f"/v1/facts?scope={TEAM}&limit=200")).body[
            "facts"
        ]
        live = [fact["id"] for fact in facts if fact["lifecycle"] == "live"]
        for fact, verb in zip(
            live, ("correct", "promote", "retract", "confirm", "erase"), strict=False
        ):
            body = {"reason": "checked"} | ({"replacement": "new"} if verb == "correct" else {})
            answer = await service.ask("keeper", "POST", f"/v1/facts/{fact}:{verb}", body)
            assert answer.status == 200, (verb, answer)
    assert offline_rebuild.verify(store).problems == ()
    assert offline_rebuild.rebuild(store).changed == ()
