"""Facts near in meaning, from an endpoint that follows a script of ours."""

from __future__ import annotations

import http.server
import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from knowledge_service.domain.access_control import View
from knowledge_service.embeddings import settings
from knowledge_service.embeddings.client import EndpointEmbedder
from knowledge_service.errors import StartupError
from knowledge_service.ports import ActionContext, Search
from knowledge_service.store.sqlite.store import SqliteStore
from knowledge_service.workers.embeddings import EmbeddingBackfill
from tests.knowledge_builders import AGENT, LEAD, OTHER, new_fact

# What the endpoint takes for the same: each word of a line lies along one axis.
AXES = (("zither", "lyre"), ("lorry", "truck"), ("rain", "storm"))


class Script:
    """What the endpoint answers next, and what it was asked."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []
        self.keys: list[str | None] = []
        self.answer: tuple[int, bytes] | None = None
        self.pause_s = 0.0  # before each byte of the answer

    def reply(self, body: dict[str, Any]) -> tuple[int, bytes]:
        self.asked.append(body)
        if self.answer:
            return self.answer
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


def test_vector_of_an_erased_fact_is_not_kept_for_another_scopes_with_its_number(
    tmp_path: Path,
) -> None:
    store = SqliteStore(tmp_path / "knowledge.db")
    (remembered,) = store.remember([new_fact("lyre", LEAD)], actor=AGENT)
    ((number, scope_no, _),) = store.facts_without_vector("m", 0, 10)
    store.erase(remembered.fact_id, ActionContext(AGENT, "asked for"))
    store.remember([new_fact("truck", OTHER)], actor=AGENT)
    store.keep_vectors("m", [(number, scope_no, b"data")])
    assert [text for _, _, text in store.facts_without_vector("m", 0, 10)] == ["truck"]
    store.close()
