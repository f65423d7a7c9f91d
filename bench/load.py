"""A client that costs little: bare sockets on uvloop, in a process of its own.

Reads what it shall do as JSON from stdin, writes what it saw as JSON to stdout.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import random
import resource
import sys
import time
from collections.abc import Iterator
from typing import Any

import uvloop

from bench.texts import VOCABULARIES, Texts

_SCOPE_DEPTH = 2


class Connection:
    """One connection that is kept open; one request at a time."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def open(cls, port: int) -> Connection:
        return cls(*await asyncio.open_connection("127.0.0.1", port, limit=2**24))

    async def post(self, request: bytes) -> tuple[int, bytes]:
        """Send a whole request; return status and body."""
        self._writer.write(request)
        head = await self._reader.readuntil(b"\r\n\r\n")
        at = head.lower().index(b"content-length:") + 15
        length = int(head[at : head.index(b"\r", at)])
        body = await self._reader.readexactly(length)
        return int(head[9:12]), body

    def close(self) -> None:
        self._writer.close()


def request(path: str, body: Any) -> bytes:
    """Write a request."""
    data = json.dumps(body).encode()
    head = f"POST {path} HTTP/1.1\r\nhost: bench\r\ncontent-type: application/json\r\n"
    return f"{head}content-length: {len(data)}\r\n\r\n".encode() + data


async def drive(job: dict[str, Any], requests: Iterator[tuple[bytes, bytes]]) -> dict[str, Any]:
    """Send requests from so many clients; each is (request, what the answer must hold)."""
    samples: list[float] = []
    refused: list[str] = []
    interval = job.get("clients", 1) / job["rate"] if job.get("rate") else 0.0

    async def send_requests(number: int) -> None:
        connection = await Connection.open(job["port"])
        due = time.perf_counter() + interval * number / job.get("clients", 1)
        for sent, expected in requests:
            if interval:
                await asyncio.sleep(max(0.0, due - time.perf_counter()))
                due += interval
            start = time.perf_counter()
            status, body = await connection.post(sent)
            samples.append(time.perf_counter() - start)
            if status >= 400 or expected not in body:
                refused.append(f"{status} {body[:200]!r}")
        connection.close()

    begin, cpu = time.perf_counter(), resource.getrusage(resource.RUSAGE_SELF)
    await asyncio.gather(*(send_requests(number) for number in range(job.get("clients", 1))))
    seconds = time.perf_counter() - begin
    usage = resource.getrusage(resource.RUSAGE_SELF)
    spent = usage.ru_utime + usage.ru_stime - cpu.ru_utime - cpu.ru_stime
    return {
        "samples": samples,
        "seconds": seconds,
        "cpu": spent / seconds,
        "refused": refused[:3],
        "refusals": len(refused),
    }


def recalls(job: dict[str, Any], texts: Texts) -> Iterator[tuple[bytes, bytes]]:
    """Ask questions in named scopes, each with what it is `about` before it."""
    about = job.get("about", "")
    questions = [f"{about} {texts.question()}".strip() for _ in range(job["count"])]
    bodies = [
        request("/v1/recall", {"query": question, "limit": 10, "scopes": job["scopes"]})
        for question in questions
    ]
    return iter([(body, b'"facts"') for body in bodies])


def remembers(job: dict[str, Any], texts: Texts) -> Iterator[tuple[bytes, bytes]]:
    """Remember one fact a request, in turn in each scope."""
    scopes, mark = job["scopes"], job.get("mark", 0)
    bodies = [
        {"content": texts.fact(mark + n), "scope": scopes[n % len(scopes)]}
        for n in range(job["count"])
    ]
    return iter([(request(job.get("path", "/v1/facts"), body), b"fact") for body in bodies])


def imports(job: dict[str, Any], texts: Texts) -> Iterator[tuple[bytes, bytes]]:
    """Remember facts 200 at a time, one scope after the other; small scopes share a request.

    Like every job's they are written before the clock starts: making up a text costs a fifth of
    what storing it does, on one of the cores that the service has.
    """
    return iter(list(_batches(job, texts)))


def _batches(job: dict[str, Any], texts: Texts) -> Iterator[tuple[bytes, bytes]]:
    number, size = job.get("mark", 0), job.get("batch", 200)
    scopes_in_order = itertools.chain.from_iterable(
        itertools.repeat(*scope) for scope in job["plan"]
    )
    while scopes := list(itertools.islice(scopes_in_order, size)):
        facts = [
            {"content": texts.fact(index), "scope": scope}
            for index, scope in enumerate(scopes, number)
        ]
        number += size
        yield request("/v1/facts:batch", {"facts": facts}), b"results"


async def visible(job: dict[str, Any]) -> dict[str, Any]:
    """Write a fact with a word of its own, ask for it at once, and count what is not found."""
    missing = 0
    samples: list[float] = []

    async def write_and_recall(number: int) -> None:
        nonlocal missing
        connection = await Connection.open(job["port"])
        for n in range(job["count"] // job["clients"]):
            token = f"own{job.get('mark', 0)}x{number}x{n}"
            body = {"content": f"the word is {token}", "scope": job["scopes"][0]}
            _, remember_answer = await connection.post(request("/v1/facts", body))
            question = {"query": token, "limit": 1, "scopes": job["scopes"]}
            start = time.perf_counter()
            _, recall_answer = await connection.post(request("/v1/recall", question))
            samples.append(time.perf_counter() - start)
            fact_id = json.loads(remember_answer)["fact_id"]
            missing += fact_id.encode() not in recall_answer
        connection.close()

    await asyncio.gather(*(write_and_recall(number) for number in range(job["clients"])))
    return {"samples": samples, "missing": missing}


async def main() -> None:
    """Do the jobs that stand on stdin, those of one list at the same time."""
    answers = []
    makers = {"recall": recalls, "remember": remembers, "import": imports}
    for concurrent_jobs in json.load(sys.stdin):
        running = []
        for job in concurrent_jobs:
            if job["kind"] == "visible":
                running.append(visible(job))
            else:
                seed = job.get("seed", random.randrange(10**9))  # noqa: S311
                texts = Texts(seed, VOCABULARIES[job.get("words", "made up")]())
                running.append(drive(job, makers[job["kind"]](job, texts)))
        answers.append(await asyncio.gather(*running))
    json.dump(answers, sys.stdout)


if __name__ == "__main__":
    uvloop.run(main())
