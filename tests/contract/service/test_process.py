"""The process as users start it: one owner of the file, killed anywhere, stopped by a signal."""

from __future__ import annotations

import itertools
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import httpx
import pytest

from kais_cluster.host import ports
from knowledge_client import KnowledgeClient, errors, retries
from knowledge_client.models import EpisodesIn, Extraction, ExtractionIn, FactIn, RecallIn
from knowledge_service.search import ranker_version
from knowledge_service.store.sqlite.maintenance import offline_rebuild
from knowledge_service.store.sqlite.store import SqliteStore
from tests.knowledge_builders import ALL, TEAM, episode, run_in
from tests.knowledge_process import ROOT, errand, serving

FAILING = tuple(
    episode(f"pod {name} was killed", type="error", error_signature="OOMKilled")
    for name in ("a", "b")
)


def ended(client: KnowledgeClient) -> Extraction:
    for _ in range(100):
        extraction = client.get_extraction("r")
        if extraction.state == "done":
            return extraction
        time.sleep(0.05)
    raise AssertionError(extraction)


_KILL = "(lambda: os.kill(os.getpid(), signal.SIGKILL))()"
LOCATIONS = {
    "before anything was done": "job.run_extraction = lambda *_: " + _KILL,
    "after the attempt was counted": "episode_parsing.error_signatures = lambda *_: " + _KILL,
    "when the facts were found": "SqliteStore.finish_extraction = lambda *_, **__: " + _KILL,
    "inside the transaction, with the facts in it": (
        "before = extractions._record_event\n"
        "extractions._record_event = lambda tx, kind, *rest: "
        f"{_KILL} if kind == 'extraction.done' else before(tx, kind, *rest)"
    ),
}
_IMPORTS = """
import os, signal
from knowledge_service.domain import episode_parsing
from knowledge_service.extraction import job
from knowledge_service.store.sqlite.repositories import extractions
from knowledge_service.store.sqlite.store import SqliteStore
"""


@pytest.mark.parametrize("location", LOCATIONS)
def test_service_killed_between_accepting_and_finishing_stores_each_fact_once(
    tmp_path: Path, location: str
) -> None:
    db = tmp_path / "knowledge.db"
    with serving(db, _IMPORTS + LOCATIONS[location]) as (process, url):
        with KnowledgeClient(url, retries=retries.NO_RETRIES) as client:
            client.put_run("r", run_in(mission="m-1"))
            client.add_episodes(EpisodesIn(run_id="r", episodes=FAILING))
            client.put_run("r", run_in(outcome="Failed"))
            with suppress(errors.KnowledgeUnavailable):  # it may die before its answer is out
                assert client.start_extraction(ExtractionIn(run_id="r")).state == "pending"
        assert process.wait(10) == -signal.SIGKILL
    with serving(db) as (process, url), KnowledgeClient(url) as client:
        extraction = ended(client)
        facts = client.list_facts(scope=TEAM).facts
        assert tuple(fact.id for fact in facts) == extraction.facts
        assert len(facts) == 1
        assert client.start_extraction(ExtractionIn(run_id="r")) == extraction
        assert client.get_run("r").outcome == "Failed"


def test_second_process_on_the_file_refuses_to_start(tmp_path: Path) -> None:
    db = tmp_path / "knowledge.db"
    with serving(db), serving(db) as second:
        assert second.process.wait(10) == 1
        message = second.said()
        assert (
            f"kais-knowledge: database {db} is in use by another kais-knowledge process" in message
        )


def test_signal_stops_it_gracefully(tmp_path: Path) -> None:
    with serving(tmp_path / "knowledge.db") as served:
        os.kill(served.process.pid, signal.SIGTERM)
        assert served.process.wait(10) == 0
        assert '"message": "Application shutdown complete."' in served.said()


def test_signal_just_before_it_serves_stops_it_as_well(tmp_path: Path) -> None:
    with serving(tmp_path / "knowledge.db", SIGNALLED.format(place="gc.freeze")) as served:
        assert served.process.wait(10) == 0
        assert served.said().count('"message": "Application shutdown complete."') == 1
    assert offline_rebuild.verify(tmp_path / "knowledge.db").problems == ()


@pytest.mark.parametrize("location", ["asyncio.Runner.__init__", "uvicorn.Config.load"])
def test_signal_before_the_database_is_opened_leaves_it_alone(
    tmp_path: Path, location: str
) -> None:
    with serving(tmp_path / "knowledge.db", SIGNALLED.format(place=location)) as served:
        assert served.process.wait(10) == 0
    assert list(tmp_path.iterdir()) == []


SIGNALLED = """
import asyncio, gc, os, signal, uvicorn
honest = {place}
def signalled(*given, **named):
    os.kill(os.getpid(), signal.SIGTERM)
    return honest(*given, **named)
{place} = signalled
"""


def test_signal_in_the_midst_of_writing_loses_no_acknowledged_fact_and_no_receipt(
    tmp_path: Path,
) -> None:
    db = tmp_path / "knowledge.db"
    messages: list[str] = []
    receipts: list[str] = []
    with serving(db) as (process, url):

        def write(name: str) -> None:
            with (
                KnowledgeClient(url, retries=retries.NO_RETRIES) as client,
                suppress(errors.KnowledgeError),
            ):
                for n in itertools.count():
                    fact = FactIn(content=f"{name} saw ship {n}", scope=TEAM)
                    messages.append(client.remember(fact).fact_id)
                    # Nobody waits for this receipt: it is queued when the answer is out.
                    receipts.append(client.recall(RecallIn(query=name, limit=1)).receipt or "none")

        writers = [threading.Thread(target=write, args=(f"pilot{n}",)) for n in range(8)]
        for writer in writers:
            writer.start()
        time.sleep(1)
        started_at = time.monotonic()
        process.terminate()
        assert process.wait(25) == 0
        assert time.monotonic() - started_at < 20, "a pod is given 30 s"
        for writer in writers:
            writer.join()
    store = SqliteStore(db)
    assert len(messages) > 8
    assert [fact_id for fact_id in messages if store.fact(fact_id, ALL) is None] == []
    assert [receipt for receipt in receipts if store.receipt(receipt) is None] == []
    store.close()
    assert offline_rebuild.verify(db).problems == ()


def test_caller_that_never_sends_its_body_holds_up_the_end_no_longer_than_a_pod_has(
    tmp_path: Path,
) -> None:
    with serving(tmp_path / "knowledge.db") as (process, url):
        address = httpx.URL(url)
        with socket.create_connection((address.host, address.port)) as slow:
            slow.sendall(
                b"POST /v1/facts HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"
            )
            slow.sendall(b'content-length: 100\r\n\r\n{"content"')
            time.sleep(0.5)
            process.terminate()
            assert process.wait(25) == 0


def test_recall_without_conversations_is_a_setting_of_the_service(tmp_path: Path) -> None:
    prelude = "import os; os.environ['KAIS_RECALL_CONVERSATIONS'] = 'false'"
    with serving(tmp_path / "knowledge.db", prelude) as (_, url), KnowledgeClient(url) as client:
        assert client.recall(RecallIn(query="rain")).ranker.endswith("-no-conversations")


def test_service_starts_with_its_own_weights_when_those_of_the_setting_are_damaged(
    tmp_path: Path,
) -> None:
    file = tmp_path / "weights.json"
    file.write_text('{"format": 1')
    prelude = f"import os; os.environ['KAIS_RECALL_WEIGHTS'] = {str(file)!r}"
    served = serving(tmp_path / "knowledge.db", prelude)
    with served as process, KnowledgeClient(process.url) as client:
        assert client.recall(RecallIn(query="rain")).ranker == ranker_version.RANKER
        log = process.said()
    assert f"KAIS_RECALL_WEIGHTS: {file} is not JSON" in log
    assert "The service ranks with the weights that it ships" in log


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
    assert "--auth none makes every caller an admin, so it is refused on 0.0.0.0" in refused.stderr


def test_service_that_could_know_nobody_makes_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    db, token = tmp_path / "knowledge.db", tmp_path / "token"
    monkeypatch.setenv("KAIS_KUBE_TOKEN_FILE", str(token))
    (port,) = ports.free_ports(1)
    refused = errand("serve", "--db", db, "--auth", "kubernetes", "--port", port)
    assert refused.returncode == 1
    assert refused.stderr.decode() == (
        f"kais-knowledge: no ServiceAccount token at {token} (KAIS_KUBE_TOKEN_FILE):"
        " callers cannot be authenticated."
        " Outside a cluster use --auth token, or --auth none on localhost\n"
    )
    assert not db.exists()


def test_a_stream_of_events_does_not_hold_up_the_end(tmp_path: Path) -> None:
    with serving(tmp_path / "knowledge.db") as (process, url):
        with httpx.stream("GET", f"{url}/v1/events", timeout=20, trust_env=False) as events:
            assert events.status_code == 200
            started_at = time.monotonic()
            process.terminate()
            assert process.wait(20) == 0
        assert time.monotonic() - started_at < 14, "the grace for requests is 15 s"
