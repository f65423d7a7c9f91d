"""The process as users start it: one owner of the file, killed anywhere, stopped by a signal."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import httpx
import pytest

from knowledge_client import KnowledgeClient, errors, retries
from knowledge_client.models import EpisodesIn, Extraction, ExtractionIn
from tests.builders_knowledge import TEAM, episode, run_in
from tests.knowledge_process import ROOT, serving

FAILING = tuple(
    episode(f"pod {name} was killed", type="error", error_signature="OOMKilled")
    for name in ("a", "b")
)


def ended(client: KnowledgeClient) -> Extraction:
    for _ in range(100):
        found = client.get_extraction("r")
        if found.state == "done":
            return found
        time.sleep(0.05)
    raise AssertionError(found)


_KILL = "(lambda: os.kill(os.getpid(), signal.SIGKILL))()"
PLACES = {
    "before anything was done": "job.run = lambda *_: " + _KILL,
    "after the attempt was counted": "records.signatures = lambda *_: " + _KILL,
    "when the facts were found": "SqliteStore.finish_extraction = lambda *_, **__: " + _KILL,
    "inside the transaction, with the facts in it": (
        "before = extractions._record\n"
        "extractions._record = lambda tx, kind, *rest: "
        f"{_KILL} if kind == 'extraction.done' else before(tx, kind, *rest)"
    ),
}
_IMPORTS = """
import os, signal
from knowledge_service.domain import records
from knowledge_service.extraction import job
from knowledge_service.store.sqlite import extractions
from knowledge_service.store.sqlite.store import SqliteStore
"""


@pytest.mark.parametrize("place", PLACES)
def test_service_killed_between_accepting_and_finishing_stores_each_fact_once(
    tmp_path: Path, place: str
) -> None:
    db = tmp_path / "knowledge.db"
    with serving(db, _IMPORTS + PLACES[place]) as (process, url):
        with KnowledgeClient(url, retries=retries.NEVER) as client:
            client.put_run("r", run_in(mission="m-1"))
            client.add_episodes(EpisodesIn(run_id="r", episodes=FAILING))
            client.put_run("r", run_in(outcome="Failed"))
            with suppress(errors.KnowledgeUnavailable):  # it may die before its answer is out
                assert client.start_extraction(ExtractionIn(run_id="r")).state == "pending"
        assert process.wait(10) == -signal.SIGKILL
    with serving(db) as (process, url), KnowledgeClient(url) as client:
        done = ended(client)
        facts = client.list_facts(scope=TEAM).facts
        assert tuple(fact.id for fact in facts) == done.facts
        assert len(facts) == 1
        assert client.start_extraction(ExtractionIn(run_id="r")) == done
        assert client.get_run("r").outcome == "Failed"


def test_second_process_on_the_file_refuses_to_start(tmp_path: Path) -> None:
    db = tmp_path / "knowledge.db"
    with serving(db), serving(db) as second:
        assert second.process.wait(10) == 1
        said = second.said()
        assert f"kais-knowledge: database {db} is in use by another kais-knowledge process" in said


def test_signal_stops_it_gracefully(tmp_path: Path) -> None:
    with serving(tmp_path / "knowledge.db") as served:
        os.kill(served.process.pid, signal.SIGTERM)
        assert served.process.wait(10) == 0
        assert '"message": "Application shutdown complete."' in served.said()


def test_no_authentication_beyond_loopback_is_refused() -> None:
    command = [sys.executable, "-m", "knowledge_service.main", "serve"]
    refused = subprocess.run(
        [*command, "--host", "0.0.0.0", "--auth", "none"],  # noqa: S104
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert refused.returncode == 2
    assert "--auth none makes everybody an admin, so it is refused on 0.0.0.0" in refused.stderr


def test_a_stream_of_events_does_not_hold_up_the_end(tmp_path: Path) -> None:
    with serving(tmp_path / "knowledge.db") as (process, url):
        with httpx.stream("GET", f"{url}/v1/events", timeout=20, trust_env=False) as events:
            assert events.status_code == 200
            began = time.monotonic()
            process.terminate()
            assert process.wait(20) == 0
        assert time.monotonic() - began < 8  # the grace for requests is 15 s
