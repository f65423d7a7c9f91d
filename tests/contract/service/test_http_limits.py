"""Requests that never end, and responses that nobody reads: they cost no memory and no time."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx
import pytest

from tests.knowledge_process import Served, serving

PATIENCE_S = 1.0
IMPATIENT = f"""from knowledge_service import http_limits
http_limits._TIMEOUT_S = http_limits._UNREAD_S = {PATIENCE_S}
"""
NARROW = "from knowledge_service import http_limits\nhttp_limits._MAX_UNREAD_BYTES = 15_000_000\n"
# A page of 12 MB, of which the kernel takes at most 4.
PAGE = b"GET /v1/facts?limit=200 HTTP/1.1\r\nhost: x\r\n\r\n"
CHUNKED = b"POST /v1/facts HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n"
ENDLESS = {
    "a name": b"GET /healthz HTTP/1.1\r\nhost: x\r\nx-",
    "a value": b"GET /healthz HTTP/1.1\r\nhost: x\r\nx-a: ",
    "a path": b"GET /healthz?",
    "a trailer": CHUNKED + b"2\r\n{}\r\n0\r\nx-t: ",
    "an extension of a chunk": CHUNKED + b"2;x=",
}


@contextmanager
def connected(served: Served) -> Iterator[socket.socket]:
    address = httpx.URL(served.url)
    assert address.port
    with socket.create_connection((address.host, address.port), timeout=20) as connection:
        yield connection


def resident_mib(served: Served) -> float:
    lines = Path(f"/proc/{served.process.pid}/status").read_text().splitlines()
    (kib,) = [line.split()[1] for line in lines if line.startswith("VmRSS")]
    return int(kib) / 1024


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("http-limits") / "knowledge.db") as server:
        yield server


@pytest.fixture(scope="module")
def impatient(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    path = tmp_path_factory.mktemp("impatient") / "knowledge.db"
    with serving(path, IMPATIENT) as server:
        yield server


@pytest.mark.parametrize("case", ENDLESS)
def test_what_has_no_end_is_hung_up_on_and_not_kept(served: Served, case: str) -> None:
    initial_resident_mib = resident_mib(served)
    with connected(served) as connection:
        sent = 0
        try:
            connection.sendall(ENDLESS[case])
            while sent < 30:
                connection.sendall(b"a" * (1 << 20))
                sent += 1
        except OSError:  # hung up
            pass
        assert sent < 20
    assert resident_mib(served) - initial_resident_mib < 20
    assert httpx.get(f"{served.url}/healthz", trust_env=False).status_code == 200


def test_head_that_is_too_large_is_told_so(served: Served) -> None:
    with connected(served) as connection:
        connection.sendall(b"GET /healthz HTTP/1.1\r\nhost: x\r\n")
        time.sleep(0.2)
        connection.sendall(b"x-a: " + b"a" * 66_000)
        assert connection.recv(1000).startswith(b"HTTP/1.1 431 Request Header Fields Too Large\r\n")
        assert connection.recv(1000) == b""


def test_body_of_any_allowed_size_comes_in_any_pieces(served: Served) -> None:
    content = b'{"content": "' + b" " * 200_000 + b'x"}'
    with connected(served) as connection:
        connection.sendall(CHUNKED)
        for start in range(0, len(content), 5_000):
            piece = content[start : start + 5_000]
            connection.sendall(b"%x\r\n%b\r\n" % (len(piece), piece))
        connection.sendall(b"0\r\n\r\n")
        assert b"422" in connection.recv(1000).splitlines()[0]  # content is too long, the body not


@pytest.mark.parametrize(
    "partial_request",
    [
        b"",
        b"\r\n",
        b"GET /healthz HTTP/1.1\r\nhost:",
        b"POST /v1/facts HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\n{",
    ],
)
def test_request_that_does_not_come_whole_is_waited_for_only_so_long(
    impatient: Served, partial_request: bytes
) -> None:
    with connected(impatient) as connection:
        connection.sendall(partial_request)
        started_at = time.monotonic()
        message = connection.recv(1000)
        assert message == b"" or message.startswith(b"HTTP/1.1 408 Request Timeout\r\n")
        assert PATIENCE_S * 0.9 < time.monotonic() - started_at < 15


def test_connection_is_not_kept_by_empty_lines_after_an_answer(impatient: Served) -> None:
    with connected(impatient) as connection:
        connection.sendall(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n")
        while b"ok" not in connection.recv(1000):
            pass
        connection.sendall(b"\r\n")
        message = connection.recv(1000)
        assert message == b"" or message.startswith(b"HTTP/1.1 408 Request Timeout\r\n")


def test_answer_may_take_longer_than_its_question(impatient: Served) -> None:
    with httpx.stream("GET", f"{impatient.url}/v1/events", timeout=20, trust_env=False) as events:
        started_at = time.monotonic()
        lines = events.iter_lines()
        assert next(lines) == ": listening"
        while time.monotonic() - started_at < 2 * PATIENCE_S:
            httpx.put(f"{impatient.url}/v1/scopes/realm:a", json={}, trust_env=False)
            time.sleep(0.2)
        assert next(line for line in lines if line.startswith("event"))


def test_connection_goes_on_after_a_request_that_came_in_pieces(impatient: Served) -> None:
    ask = b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n"
    with connected(impatient) as connection:
        for _ in range(4):
            for piece in (ask[:9], ask[9:]):
                connection.sendall(piece)
                time.sleep(PATIENCE_S * 0.2)
            assert connection.recv(1000).startswith(b"HTTP/1.1 200 OK\r\n")


def store_large_facts(served: Served) -> None:
    facts = [{"content": f"fact {number}", "data": {"x": "y" * 60_000}} for number in range(200)]
    for batch in (facts[:100], facts[100:]):
        httpx.post(
            f"{served.url}/v1/facts:batch", json={"facts": batch}, timeout=60, trust_env=False
        ).raise_for_status()


@contextmanager
def requested_page(served: Served) -> Iterator[socket.socket]:
    """Request a page over a connection that has little room for it outside of the service."""
    address = httpx.URL(served.url)
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65_536)
        connection.settimeout(20)
        connection.connect((address.host, address.port))
        connection.sendall(PAGE)
        yield connection


def is_read_whole(connection: socket.socket, pause_s: float = 0) -> bool:
    head, _, body = connection.recv(65_536).partition(b"\r\n\r\n")
    size = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
    received = len(body)
    try:
        while received < size and (piece := connection.recv(1 << 20)):
            received += len(piece)
            time.sleep(pause_s)
    except ConnectionResetError:
        return False
    return received == size


def test_response_that_its_client_does_not_read_is_not_kept(impatient: Served) -> None:
    store_large_facts(impatient)
    with requested_page(impatient) as unread, requested_page(impatient) as slow:
        # Slower than the time limit, with a step in each part of it.
        assert is_read_whole(slow, pause_s=PATIENCE_S / 50)
        time.sleep(2 * PATIENCE_S)
        assert not is_read_whole(unread)
    assert "its client does not read the response" in impatient.said()


def test_client_that_reads_steadily_is_not_taken_for_one_that_does_not(tmp_path: Path) -> None:
    """The kernel takes more of a response only after its client has read over a megabyte."""
    script = "from knowledge_service import http_limits\nhttp_limits._UNREAD_S = 2.5\n"
    with serving(tmp_path / "knowledge.db", script, is_ready=True) as served:
        store_large_facts(served)
        with requested_page(served) as slow:
            for _ in range(140):
                slow.recv(10_000)  # seven times as much as it has to read
                time.sleep(0.05)
        assert "its client does not read the response" not in served.said()


def test_unread_responses_have_a_limit_together_and_the_oldest_is_dropped(tmp_path: Path) -> None:
    with serving(tmp_path / "knowledge.db", NARROW, is_ready=True) as served:
        store_large_facts(served)
        with ExitStack() as opened:
            pages = []
            for _ in range(3):
                pages.append(opened.enter_context(requested_page(served)))
                pages[-1].recv(1, socket.MSG_PEEK)  # so that the next response begins later
            assert [is_read_whole(page) for page in pages] == [False, False, True]
