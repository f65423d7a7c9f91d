"""Facts near in meaning, from an endpoint that follows a script of ours."""

from __future__ import annotations

import contextlib
import http.server
import json
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from knowledge_service.domain.access_control import View
from knowledge_service.embeddings import settings
from knowledge_service.embeddings.client import EndpointEmbedder
from knowledge_service.errors import StartupError
from knowledge_service.ports import ActionContext, Search
from knowledge_service.store.sqlite.db import connection
from knowledge_service.store.sqlite.maintenance import offline_rebuild
from knowledge_service.store.sqlite.store import SqliteStore
from knowledge_service.workers.background import TaskFailed
from knowledge_service.workers.embeddings import EmbeddingBackfill
from tests.earlier_schemas import drop_runs_of_agents
from tests.knowledge_builders import AGENT, LEAD, OTHER, TEAM, new_fact

# What the endpoint takes for the same: each word of a line lies along one axis.
AXES = (("zither", "lyre"), ("lorry", "truck"), ("rain", "storm"))


class Script:
    """What the endpoint answers next, and what it was asked."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []
        self.keys: list[str | None] = []
        self.answer: tuple[int, bytes] | None = None
        self.answer_to: Callable[[list[str]], int | None] = lambda _texts: None  # its status
        self.pause_s = 0.0  # before each byte of the answer

    def reply(self, body: dict[str, Any]) -> tuple[int, bytes]:
        self.asked.append(body)
        if self.answer:
            return self.answer
        status = self.answer_to(body["input"])
        if status:
            return status, b"{}"
        rows = [
            {
                "index": n,
                "embedding": [float(any(w in text for w in axis)) for axis in AXES] + [0.1],
            }
            for n, text in enumerate(body["input"])
        ]
        return 200, json.dumps({"data": rows[::-1]}).encode()


@pytest.fixture
def script() -> Script:
    return Script()


@pytest.fixture
def url(script: Script) -> Iterator[str]:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            script.keys.append(self.headers["Authorization"])
            status, answer = script.reply(body) if self.path == "/v1/embeddings" else (404, b"{}")
            self.send_response(status)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            for at in range(len(answer)) if script.pause_s else ():
                time.sleep(script.pause_s)
                try:
                    self.wfile.write(answer[at : at + 1])
                except OSError:  # nobody listens any more
                    return
            if not script.pause_s:
                self.wfile.write(answer)

        def log_message(self, *_: object) -> None:
            return None

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/v1"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def embedder(url: str) -> Iterator[EndpointEmbedder]:
    endpoint_embedder = EndpointEmbedder(url, "small", "s3cret")
    yield endpoint_embedder
    endpoint_embedder.close()


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    opened = SqliteStore(tmp_path / "k.db")
    opened.remember(
        [new_fact("a zither lay there", LEAD), new_fact("the lorry is blue", LEAD)], actor=AGENT
    )
    opened.remember([new_fact("a zither of others", OTHER)], actor=AGENT)
    yield opened
    opened.close()


def backfill(
    store: SqliteStore, embedder: EndpointEmbedder, *, every_s: float = 1.0
) -> EmbeddingBackfill:
    return EmbeddingBackfill(store, embedder, on_run=lambda *_: None, every_s=every_s)


def found(store: SqliteStore, query: str) -> list[str]:
    return [hit.fact.content for hit in store.search(Search(View(LEAD), query, 10)).hits]


def test_facts_near_in_meaning_are_found_when_it_is_on_and_not_when_it_is_off(
    store: SqliteStore, embedder: EndpointEmbedder, script: Script
) -> None:
    assert found(store, "lyre") == []
    assert script.asked == []
    assert backfill(store, embedder).step() == 0
    store.embedder = embedder
    assert found(store, "lyre") == ["a zither lay there"]
    assert found(store, "a storm over the truck")[0] == "the lorry is blue"
    store.embedder = None
    assert found(store, "lyre") == []
    assert script.asked[0]["model"] == "small"
    assert len(script.asked[0]["input"]) == 3
    assert set(script.keys) == {"Bearer s3cret"}


def test_part_of_the_score_says_what_meaning_gave(
    store: SqliteStore, embedder: EndpointEmbedder
) -> None:
    backfill(store, embedder).step()
    store.embedder = embedder
    (hit, *_) = store.search(Search(View(LEAD), "lyre", 10)).hits
    assert hit.parts["bm25"] == 0
    assert hit.parts["meaning"] > 0


@pytest.mark.parametrize(
    "answer",
    [
        (500, b"{}"),
        (200, b"no json"),
        (200, b"{}"),
        (200, b'{"data": []}'),
        (200, b'{"data": [{"index": 0, "embedding": []}]}'),
        (200, b'{"data": [{"index": 0, "embedding": [NaN]}]}'),
        (200, b'{"data": [{"index": 0, "embedding": "x"}]}'),
    ],
)
def test_endpoint_that_answers_nonsense_leaves_recall_as_it_is_without(
    store: SqliteStore, embedder: EndpointEmbedder, script: Script, answer: tuple[int, bytes]
) -> None:
    backfill(store, embedder).step()
    store.embedder = embedder
    script.answer = answer
    assert found(store, "zither") == ["a zither lay there"]
    assert backfill(store, embedder).step() in (1.0, 30.0)


def test_endpoint_that_hangs_or_trickles_holds_recalls_up_once_and_is_asked_again_later(
    store: SqliteStore, url: str, script: Script
) -> None:
    now_s = 100.0
    embedder = EndpointEmbedder(url, "small", timeout_s=0.3, monotonic=lambda: now_s)
    backfill(store, embedder).step()
    store.embedder = embedder
    script.pause_s = 0.2  # each byte comes in time, the answer does not
    for _ in range(5):
        assert found(store, "lyre zither") == ["a zither lay there"]
    assert len(script.asked) == 2, "once for the facts, once for five questions"
    script.pause_s = 0.0
    now_s += 6
    assert found(store, "lyre") == ["a zither lay there"]
    embedder.close()


def test_vectors_of_another_model_do_not_count(
    store: SqliteStore, embedder: EndpointEmbedder, url: str
) -> None:
    backfill(store, embedder).step()
    store.embedder = EndpointEmbedder(url, "large")
    assert found(store, "lyre") == []
    assert backfill(store, store.embedder).step() == 0
    assert found(store, "lyre") == ["a zither lay there"]
    store.embedder.close()


def test_facts_told_later_get_their_vectors_by_themselves(
    store: SqliteStore, embedder: EndpointEmbedder, script: Script
) -> None:
    worker = backfill(store, embedder, every_s=0.01)
    worker.start()
    store.remember([new_fact("rain fell", LEAD)], actor=AGENT)
    store.embedder = embedder
    for _ in range(500):
        if found(store, "storm")[:1] == ["rain fell"]:
            break
        threading.Event().wait(0.01)
    worker.stop()
    assert found(store, "storm")[0] == "rain fell"
    assert script.asked


def test_environment_says_whether_there_are_embeddings(tmp_path: Path) -> None:
    assert settings.read({}) is None
    key = tmp_path / "key"
    key.write_text("s3cret\n")
    fields = {"KAIS_EMBEDDINGS_URL": "http://models/v1", "KAIS_EMBEDDINGS_MODEL": "small"}
    assert settings.read(fields) == settings.Embeddings("http://models/v1", "small", None)
    keyed = settings.read(fields | {"KAIS_EMBEDDINGS_KEY_FILE": str(key)})
    assert keyed is not None
    assert keyed.key == "s3cret"
    for wrong, text in (
        ({"KAIS_EMBEDDINGS_URL": "models"}, "is no http"),
        ({"KAIS_EMBEDDINGS_MODEL": ""}, "KAIS_EMBEDDINGS_MODEL is missing"),
        ({"KAIS_EMBEDDINGS_KEY_FILE": str(tmp_path / "none")}, "cannot be read"),
    ):
        with pytest.raises(StartupError, match=text):
            settings.read(fields | wrong)


@pytest.mark.parametrize("scope", [LEAD, OTHER])
def test_vector_of_an_erased_fact_is_not_kept_for_the_next_one_with_its_number(
    tmp_path: Path, scope: str
) -> None:
    store = SqliteStore(tmp_path / "knowledge.db")
    (remembered,) = store.remember([new_fact("lyre", LEAD)], actor=AGENT)
    ((fact_id, _),), _ = store.facts_without_vector("m", None, 10)
    store.erase(remembered.fact_id, ActionContext(AGENT, "asked for"))
    store.remember([new_fact("truck", scope)], actor=AGENT)
    store.keep_vectors("m", [(fact_id, b"data")])
    facts, _ = store.facts_without_vector("m", None, 10)
    assert [fact.text for fact in facts] == ["truck"]
    store.close()


def vectors_of(path: Path) -> int:
    """Return the number of vectors in a file."""
    with contextlib.closing(connection.open_writer(path)) as database:
        (count,) = next(iter(database.execute("SELECT count(*) FROM vector")))
        return int(count)


def finish(worker: EmbeddingBackfill) -> None:
    """Run steps until no fact is left."""
    for _ in range(100):
        if worker.step() > 0:
            return
    raise AssertionError("the backfill does not end")


@pytest.mark.parametrize("status", [413, 422, 400, 500])
def test_endpoint_that_takes_smaller_batches_gets_smaller_batches(
    store: SqliteStore, embedder: EndpointEmbedder, script: Script, status: int
) -> None:
    script.answer_to = lambda texts: status if len(texts) > 1 else None
    finish(backfill(store, embedder))
    store.embedder = embedder
    assert found(store, "lyre") == ["a zither lay there"]
    assert found(store, "truck")[0] == "the lorry is blue"


def test_batch_that_takes_too_long_is_halved(
    store: SqliteStore, embedder: EndpointEmbedder, script: Script, url: str
) -> None:
    slow_embedder = EndpointEmbedder(url, "small", batch_timeout_s=0.2)

    def work(texts: list[str]) -> None:
        time.sleep(0.5 if len(texts) > 1 else 0)

    script.answer_to = work
    finish(backfill(store, slow_embedder))
    slow_embedder.close()
    store.embedder = embedder
    assert found(store, "lyre") == ["a zither lay there"]


@pytest.mark.parametrize("status", [400, 413, 500])
def test_fact_that_the_endpoint_cannot_embed_is_skipped_and_named_and_the_others_get_vectors(
    store: SqliteStore,
    embedder: EndpointEmbedder,
    script: Script,
    caplog: pytest.LogCaptureFixture,
    status: int,
) -> None:
    (long,) = store.remember([new_fact("much too long", LEAD)], actor=AGENT)
    store.remember([new_fact("rain fell", LEAD)], actor=AGENT)
    script.answer_to = lambda texts: status if "much too long" in texts else None
    worker = backfill(store, embedder)
    finish(worker)
    store.embedder = embedder
    assert found(store, "lyre") == ["a zither lay there"]
    assert found(store, "storm")[0] == "rain fell"
    (record,) = [r for r in caplog.records if "gets no vector" in r.getMessage()]
    assert record.__dict__["fields"]["fact"] == long.fact_id
    assert "much too long" not in str(record.__dict__)
    script.asked.clear()
    assert worker.step() == 1.0
    assert script.asked == [], "it is not asked for again"
    finish(backfill(store, embedder))
    assert script.asked, "a restart asks again"


@pytest.mark.parametrize("status", [401, 403, 404, 429, 500, 503])
def test_endpoint_that_embeds_nothing_makes_no_fact_skipped(
    store: SqliteStore, embedder: EndpointEmbedder, script: Script, status: int
) -> None:
    worker = backfill(store, embedder)
    script.answer_to = lambda _texts: status
    for _ in range(5):
        with pytest.raises(TaskFailed, match=str(status)):
            finish(worker)
    script.answer_to = lambda _texts: None
    finish(worker)
    assert store.facts_without_vector("small", None, 10)[0] == []


def test_endpoint_that_does_not_listen_makes_no_fact_skipped(
    store: SqliteStore, embedder: EndpointEmbedder
) -> None:
    deaf_embedder = EndpointEmbedder("http://127.0.0.1:1/v1", "small")
    worker = backfill(store, deaf_embedder)
    with pytest.raises(TaskFailed, match="ConnectError"):
        worker.step()
    deaf_embedder.close()
    assert len(store.facts_without_vector("small", None, 10)[0]) == 3


def test_failure_of_the_backfill_withholds_no_vectors_from_recalls(
    store: SqliteStore, embedder: EndpointEmbedder, script: Script
) -> None:
    finish(backfill(store, embedder))
    store.embedder = embedder
    store.remember([new_fact("rain fell", LEAD)], actor=AGENT)
    script.answer_to = lambda texts: 503 if texts != ["lyre"] else None
    with pytest.raises(TaskFailed):
        finish(backfill(store, embedder))
    assert found(store, "lyre") == ["a zither lay there"]


def test_batch_may_take_longer_than_a_recall_waits(
    store: SqliteStore, url: str, script: Script
) -> None:
    hasty_embedder = EndpointEmbedder(url, "small", timeout_s=0.1)
    script.answer_to = lambda _texts: time.sleep(0.3)
    finish(backfill(store, hasty_embedder))
    hasty_embedder.close()
    assert len(script.asked) == 1
    assert store.facts_without_vector("small", None, 10)[0] == []


def test_fact_with_the_number_of_an_erased_one_gets_its_vector_without_a_restart(
    store: SqliteStore, embedder: EndpointEmbedder
) -> None:
    (newest,) = store.remember([new_fact("rain fell", LEAD)], actor=AGENT)
    worker = backfill(store, embedder)
    finish(worker)
    store.erase(newest.fact_id, ActionContext(AGENT, "asked for"))
    store.remember([new_fact("a storm came", LEAD)], actor=AGENT)
    finish(worker)
    store.embedder = embedder
    assert found(store, "rain")[0] == "a storm came"


def test_adopted_fact_keeps_its_vector_and_its_erasure_deletes_it(
    tmp_path: Path, embedder: EndpointEmbedder
) -> None:
    path = tmp_path / "knowledge.db"
    with contextlib.closing(SqliteStore(path)) as store:
        store.remember([new_fact("rain fell", TEAM)], actor=AGENT)
        store.delete_scope(TEAM, actor=AGENT)
        (later,) = store.remember([new_fact("a lorry came", TEAM)], actor=AGENT)
        finish(backfill(store, embedder))
        store.adopt_scope(TEAM, actor=AGENT)
        store.embedder = embedder
        hits = store.search(Search(View(TEAM), "truck", 10)).hits
        assert hits[0].fact.content == "a lorry came"
        store.erase(later.fact_id, ActionContext(AGENT, "asked for"))
    assert vectors_of(path) == 1


def test_vectors_of_facts_that_were_adopted_and_erased_before_go_with_the_upgrade(
    tmp_path: Path, embedder: EndpointEmbedder
) -> None:
    path = tmp_path / "knowledge.db"
    with contextlib.closing(SqliteStore(path)) as store:
        store.remember([new_fact("rain fell", TEAM)], actor=AGENT)
        finish(backfill(store, embedder))
    with contextlib.closing(connection.open_writer(path)) as database:
        database.execute("INSERT INTO vector SELECT 999, fact_no, model, data FROM vector")
        drop_runs_of_agents(database)
        database.execute("DELETE FROM migration WHERE number >= 26")
    SqliteStore(path).close()
    assert vectors_of(path) == 1


def test_rebuild_keeps_the_vectors(tmp_path: Path, embedder: EndpointEmbedder) -> None:
    path = tmp_path / "knowledge.db"
    with contextlib.closing(SqliteStore(path)) as store:
        store.remember([new_fact("rain fell", TEAM)], actor=AGENT)
        store.delete_scope(TEAM, actor=AGENT)
        store.remember([new_fact("a lorry came", TEAM)], actor=AGENT)
        finish(backfill(store, embedder))
        store.adopt_scope(TEAM, actor=AGENT)
    assert offline_rebuild.rebuild(path).changed == ()
    with contextlib.closing(SqliteStore(path)) as store:
        store.embedder = embedder
        hits = store.search(Search(View(TEAM), "truck", 10)).hits
        assert hits[0].fact.content == "a lorry came"
