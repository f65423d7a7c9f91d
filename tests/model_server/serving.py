"""A model server in a thread of the tests, on a free port of the loopback address."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass

import uvicorn

from tests.model_server import script
from tests.model_server.app import ModelServer
from tests.model_server.journal import Entry

_START_S = 10


class _Server(uvicorn.Server):
    """Signals when it accepts connections, so that nobody has to poll."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.is_listening = threading.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.is_listening.set()


@dataclass(frozen=True)
class Running:
    """A running model server: its address, and its state in this process."""

    url: str
    server: ModelServer

    @property
    def calls(self) -> list[Entry]:
        """The calls so far."""
        return self.server.journal.entries


@contextlib.contextmanager
def running(text: str) -> Iterator[Running]:
    """Serve a script during the block."""
    server = ModelServer(script.parse(text))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        config = uvicorn.Config(server.app(), log_config=None, lifespan="off")
        web = _Server(config)
        thread = threading.Thread(target=web.run, args=([listener],), name="model-server")
        thread.start()
        try:
            if not web.is_listening.wait(_START_S):
                raise TimeoutError(f"the model server did not start within {_START_S} s")
            yield Running(f"http://127.0.0.1:{listener.getsockname()[1]}", server)
        finally:
            web.should_exit = web.force_exit = True
            thread.join()
