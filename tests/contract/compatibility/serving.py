"""A store file behind the whole service in process, at a fixed time, for plain JSON requests.

The tests here speak HTTP and not through the client's models, so that they show what a released
client sends and reads.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import httpx

from knowledge_client.models import Grant
from knowledge_service.asgi_app import create_app
from knowledge_service.domain.principals import ALL_VERBS, Principal, administrator
from knowledge_service.store.sqlite.store import SqliteStore
from tests.fakes.identity import NamedCallers

DATA = Path(__file__).with_name("data")
RECORDED = datetime(2026, 3, 2, 12, tzinfo=UTC)
"""When the first request of the recording was made; each one after it, a minute later."""
ANSWERED = datetime(2026, 4, 1, 12, tzinfo=UTC)
"""The time at which the frozen requests are answered."""
TEAM = "realm:demo/formation:team"
LEAD = f"{TEAM}/cell:lead-0"
PEER = f"{TEAM}/cell:lead-1"

_REALM = Grant(scope="realm:demo", subtree=True, verbs=ALL_VERBS)
_READER = Grant(scope="realm:demo", subtree=True, verbs=("read", "write"))
CALLERS = {
    "operator": administrator("operator", "system"),
    "lead": Principal("demo/lead-0", "agent", LEAD),
    "peer": Principal("demo/lead-1", "agent", PEER),
    "ada": Principal("ada", "human", "realm:demo", (_READER,)),
    "keeper": Principal("keeper", "human", "realm:demo", (_REALM,)),
}


class Answer(NamedTuple):
    """Status code and decoded body of a response."""

    status: int
    body: Any


class Clock:
    """A clock that stands still unless it is moved."""

    def __init__(self, now: datetime) -> None:
        self.now = now

    def __call__(self) -> datetime:
        return self.now


class Service:
    """The service over one file."""

    def __init__(self, path: Path, now: datetime, step: timedelta = timedelta()) -> None:
        self.clock = Clock(now)
        self._step = step
        self.store = SqliteStore(path, self.clock)
        app = create_app(self.store, NamedCallers(CALLERS), clock=self.clock)
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        self._http = httpx.AsyncClient(transport=transport, base_url="http://service")

    async def ask(
        self, caller: str, method: str, path: str, body: Any = None, key: str | None = None
    ) -> Answer:
        """Send one request as a caller."""
        self.clock.now += self._step
        headers = {"Authorization": f"Bearer {caller}"}
        if key:
            headers["Idempotency-Key"] = key
        answer = await self._http.request(method, path, json=body, headers=headers)
        return Answer(answer.status_code, json.loads(answer.content) if answer.content else None)

    async def __aenter__(self) -> Service:
        return self

    async def __aexit__(self, *_: object) -> None:
        """Let go of the file."""
        await self._http.aclose()
        self.store.close()
