"""The process is killed at any moment under eight writers: nothing lost, doubled or damaged.

What was acknowledged is written down here, outside of the service. 20 rounds by default;
`KAIS_SOAK_ROUNDS` sets another number, as `make soak` does.
"""

from __future__ import annotations

import random
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from tests import settings
from tests.knowledge_process import errand, serving

WRITERS = 8
VERIFY_EVERY = 10


@dataclass
class Book:
    """What was sent and what was answered. An entry is `(key, contents)`."""

    round: int
    sent: list[tuple[str, tuple[str, ...]]] = field(default_factory=list)
    kept: dict[str, str] = field(default_factory=dict)
    """The id of each content that was acknowledged."""
    answered: set[str] = field(default_factory=set)
    faults: list[str] = field(default_factory=list)

    @property
    def scope(self) -> str:
        return f"realm:demo/formation:round-{self.round}"

    @property
    def unsure(self) -> list[tuple[str, tuple[str, ...]]]:
        return [entry for entry in self.sent if entry[0] not in self.answered]

    def send(self, client: httpx.Client, key: str, contents: tuple[str, ...]) -> None:
        """Write facts under a key, and note the answer."""
        facts = [{"content": content, "scope": self.scope} for content in contents]
        path, body = "/v1/facts:batch", {"facts": facts}
        if len(facts) == 1:
            path, body = "/v1/facts", facts[0]
        answer = client.post(path, json=body, headers={"Idempotency-Key": key})
        if answer.status_code not in {200, 201}:
            self.faults.append(f"{key}: {answer.status_code} {answer.text}")
            return
        matching_body: Any = answer.json()
        results = matching_body["results"] if len(facts) > 1 else [matching_body]
        for content, result in zip(contents, results, strict=True):
            initial_text = self.kept.setdefault(content, result["fact_id"])
            if initial_text != result["fact_id"]:
                self.faults.append(
                    f"{content!r} has the ids {initial_text} and {result['fact_id']}"
                )
        self.answered.add(key)


def write(book: Book, client: httpx.Client, writer: int, going: threading.Event) -> None:
    """Write until the service is gone: new facts, several at once, and ones that are known."""
    rng = random.Random(f"{book.round}/{writer}")  # noqa: S311
    for number in range(100_000):
        key = f"{book.round}/{writer}/{number}"
        contents = tuple(f"fact {key}/{part}" for part in range(rng.choice((1, 1, 3))))
        if number and rng.random() < 0.2:
            contents = (f"fact {book.round}/{writer}/0/0",)
        book.sent.append((key, contents))
        try:
            book.send(client, key, contents)
        except httpx.TransportError:
            return
        going.set()


def kill_under_writers(process: subprocess.Popen[str], book: Book, client: httpx.Client) -> None:
    """Let writers write until a random moment, then kill the process."""
    going = threading.Event()
    threads = [
        threading.Thread(target=write, args=(book, client, writer, going))
        for writer in range(WRITERS)
    ]
    for thread in threads:
        thread.start()
    assert going.wait(30)
    time.sleep(random.Random(book.round).uniform(0, 0.4))  # noqa: S311
    process.kill()
    for thread in threads:
        thread.join()


def assert_whole(book: Book, client: httpx.Client) -> None:
    """Compare a round's book with what the service has, before and after everything is repeated."""
    results = stored(client, book.scope)
    requested_contents = {content for _, contents in book.sent for content in contents}
    assert set(book.kept) - set(results) == set(), "lost"
    assert set(results) - requested_contents == set(), "nobody wrote this"
    for _, contents in book.unsure:
        assert len(set(contents) & set(results)) in {0, len(set(contents))}, "half a batch"
    for key, contents in [*book.unsure, *book.sent[-20:]]:
        book.send(client, key, contents)
    assert book.faults == []
    counts = Counter(stored(client, book.scope))
    assert set(counts) == requested_contents
    assert [content for content, count in counts.items() if count > 1] == [], "doubled"


def stored(client: httpx.Client, scope: str) -> list[str]:
    """List the content of every fact of a scope."""
    results: list[str] = []
    request: dict[str, Any] = {"scope": scope, "limit": 500}
    while True:
        page = client.get("/v1/facts", params=request).json()
        results += [fact["content"] for fact in page["facts"]]
        if not page.get("cursor"):
            return results
        request["cursor"] = page["cursor"]


def assert_verified(db: Path) -> None:
    process = errand("verify", "--db", db)
    assert process.returncode == 0, process.stderr
    assert b"no problems found" in process.stderr + process.stdout


@contextmanager
def served(db: Path) -> Iterator[tuple[subprocess.Popen[str], httpx.Client]]:
    with (
        serving(db) as (process, url),
        httpx.Client(base_url=url, trust_env=False, timeout=60) as client,
    ):
        yield process, client


def test_kill_9_under_eight_writers_loses_doubles_and_damages_nothing(tmp_path: Path) -> None:
    db = tmp_path / "knowledge.db"
    books: list[Book] = []
    for number in range(settings.soak_rounds(20)):
        with served(db) as (process, client):
            for book in books[-1:]:
                assert_whole(book, client)
            books.append(Book(number))
            kill_under_writers(process, books[-1], client)
        assert books[-1].answered
        if number % VERIFY_EVERY == VERIFY_EVERY - 1:
            assert_verified(db)
    with served(db) as (_, client):
        for book in books:
            assert_whole(book, client)
    assert_verified(db)
