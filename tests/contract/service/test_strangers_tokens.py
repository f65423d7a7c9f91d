"""Tokens that nobody issued: what they claim costs no memory and breaks nothing."""

from __future__ import annotations

import base64
import gc
import json
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from knowledge_service.asgi_app import create_app
from knowledge_service.authentication.kubernetes import KubernetesAuthentication, TokenReviewer
from knowledge_service.store.sqlite.store import SqliteStore

_TOKENS = 60
_LONGEST = 11_000  # characters of a subject that the limit of claims lets through


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    sqlite_store = SqliteStore(tmp_path / "knowledge.db")
    yield sqlite_store
    sqlite_store.close()


@pytest.fixture
def http(store: SqliteStore, tmp_path: Path) -> httpx.AsyncClient:
    def refuse(_: httpx.Request) -> httpx.Response:
        return httpx.Response(201, json={"status": {"authenticated": False}})

    (tmp_path / "token").write_text("own-token")
    api = httpx.AsyncClient(transport=httpx.MockTransport(refuse), base_url="https://api")
    reviewer = TokenReviewer(api, tmp_path / "token", "kais-knowledge")
    app = create_app(store, KubernetesAuthentication(reviewer, store, ()))
    return httpx.AsyncClient(
        transport=httpx.ASGITransport(app, raise_app_exceptions=False), base_url="http://service"
    )


def claiming(subject: str) -> dict[str, str]:
    """Return the header of a token that claims a subject, which has a JSON text."""
    claims = base64.urlsafe_b64encode(f'{{"sub": {subject}}}'.encode()).decode().rstrip("=")
    return {"Authorization": f"Bearer a.{claims}.c"}


async def test_names_that_strangers_claim_are_not_kept(http: httpx.AsyncClient) -> None:
    await http.get("/v1/whoami", headers=claiming('"first"'))
    tracemalloc.start()
    try:
        for number in range(_TOKENS):
            name = f"\U0001f525{number}".ljust(_LONGEST, "x")
            headers = claiming(json.dumps(name, ensure_ascii=False))
            assert (await http.get("/v1/whoami", headers=headers)).status_code == 401
        gc.collect()
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept < _TOKENS * _LONGEST


async def test_token_that_claims_half_a_character_is_refused(http: httpx.AsyncClient) -> None:
    response = await http.get("/v1/whoami", headers=claiming('"\\ud800"'))
    assert (response.status_code, response.json()["code"]) == (401, "unauthenticated")
