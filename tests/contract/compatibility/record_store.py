"""Records the frozen store file: a life in which every type of event happens, and what it answers.

    python -m tests.contract.compatibility.record_store

writes `store.db.xz`, `export.jsonl.xz` and `answers.json.xz` into `data/`. The files there come
from commit 573ae85 and stay as they are: they stand for what a user has on disk. Ids and salts are
random, so another run makes another file with the same life in it. With `--answers` the file is
kept and only its answers are recorded anew, for a change of ranking or of an answer that is meant
and listed in the CHANGELOG; the answers that changed are printed for the review.
"""

from __future__ import annotations

import asyncio
import json
import lzma
import sqlite3
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

from knowledge_service.store.sqlite.maintenance import exports
from tests.contract.compatibility import store_life
from tests.contract.compatibility.serving import (
    ANSWERED,
    DATA,
    RECORDED,
    TEAM,
    Answer,
    Service,
)

OLDEST = Path(__file__).parents[1] / "store" / "m001.sql"
"""The file begins as the oldest released schema left it, so that its log has rows from before."""
STORE, EXPORT, ANSWERS = (
    DATA / name for name in ("store.db.xz", "export.jsonl.xz", "answers.json.xz")
)


def frozen_store(path: Path) -> Path:
    """Write a copy of the frozen store file."""
    path.write_bytes(lzma.decompress(STORE.read_bytes()))
    return path


def frozen_answers() -> dict[str, Any]:
    """Read what the frozen store answered."""
    return dict(json.loads(lzma.decompress(ANSWERS.read_bytes())))


def _rows(path: Path, sql: str) -> list[Any]:
    with closing(sqlite3.connect(path)) as db:
        return [row[0] for row in db.execute(sql).fetchall()]


def requests(path: Path) -> Iterator[tuple[str, str, str, Any]]:
    """Give the requests of which the answers are frozen: caller, method, path and body."""
    lists = (
        "/v1/facts?limit=200", f"/v1/facts?scope={TEAM}&lifecycle=superseded", "/v1/reviews",
        "/v1/runs?limit=100", "/v1/runs/run-2", "/v1/runs/run-2/episodes", "/v1/extractions/run-2",
        "/v1/extractions/run-3", "/v1/scopes", f"/v1/scopes/{TEAM}", "/v1/principals",
        "/v1/stats/blueprints/demo/review", "/v1/audit?limit=200",
        "/v1/facts/alias:ko:KO-001", "/v1/facts/alias:doc:gateway",
    )  # fmt: skip
    for each in lists:
        yield "operator", "GET", each, None
    yield "lead", "GET", "/v1/facts?limit=200", None
    for fact in _rows(path, "SELECT id FROM fact ORDER BY id"):
        for view in ("why", "history", "impact", "links", "neighbors"):
            yield "operator", "GET", f"/v1/facts/{fact}/{view}", None
    for receipt in _rows(path, "SELECT id FROM receipt ORDER BY id"):
        for view in ("", ":replay", ":diff"):
            yield "operator", "GET", f"/v1/receipts/{receipt}{view}", None
    # Last, because each leaves a receipt.
    for caller in ("lead", "ada"):
        for query in store_life.QUERIES:
            yield caller, "POST", "/v1/recall", {**query, "explain": True}


async def answers(path: Path) -> dict[str, Any]:
    """Ask a store everything; its answers by request."""
    asked = list(requests(path))
    async with Service(path, ANSWERED) as service:
        return {
            f"{caller} {method} {place}" + (f" {json.dumps(body)}" if body else ""): _plain(
                await service.ask(caller, method, place, body)
            )
            for caller, method, place, body in asked
        }


def _plain(answer: Answer) -> dict[str, Any]:
    """Leave out what is random in each answer: sealed cursors, and the id of a new receipt."""
    body = answer.body
    random = {"cursor", "receipt"} if "ranker" in body and "facts" in body else {"cursor"}
    kept = {name: value for name, value in body.items() if name not in random}
    return {"status": answer.status, "body": kept}


async def make(path: Path) -> None:
    """Make a store file with the whole life in it."""
    with closing(sqlite3.connect(path)) as db:
        db.executescript(OLDEST.read_text())
    async with Service(path, RECORDED, step=timedelta(minutes=1)) as service:
        await store_life.live(service)


async def record() -> None:
    """Write the three files."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "store.db"
        await make(path)
        with closing(sqlite3.connect(path)) as db:
            db.execute("VACUUM")
        STORE.write_bytes(lzma.compress(path.read_bytes()))
        with lzma.open(EXPORT, "wb") as out:
            exports.export(path, out)
    await record_answers({})


async def record_answers(previous: Mapping[str, Any]) -> None:
    """Write the answers that the recorded file gives, and print those that were others."""
    with tempfile.TemporaryDirectory() as folder:
        found = await answers(frozen_store(Path(folder) / "store.db"))
    for name in sorted(found.keys() | previous.keys()) if previous else ():
        if found.get(name) != previous.get(name):
            sys.stdout.write(f"{name}\n  was {previous.get(name)}\n  is  {found.get(name)}\n")
    ANSWERS.write_bytes(lzma.compress(json.dumps(found).encode()))


if __name__ == "__main__":
    if sys.argv[1:] not in ([], ["--answers"]):
        sys.exit("usage: record_store [--answers]; without --answers the frozen store is replaced")
    asyncio.run(record_answers(frozen_answers()) if "--answers" in sys.argv else record())
