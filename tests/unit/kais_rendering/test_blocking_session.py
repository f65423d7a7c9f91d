"""A session serves a program without an event loop, also one with several threads."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from kais_rendering.blocking_session import RenderSession


def test_requests_of_several_threads_take_turns():
    session = RenderSession(memory_mib=512)
    try:
        with ThreadPoolExecutor(4) as threads:
            answers = threads.map(
                lambda number: session.ask({"op": "read_yaml", "text": f"a: {number}"}, limit_s=30),
                range(8),
            )
            documents = [answer["documents"] for answer in answers]
    finally:
        session.close()
    assert documents == [[{"a": number}] for number in range(8)]
