"""Asks an OpenAI-compatible endpoint for vectors.

A recall never fails because of it: what does not come in time, or is not what was asked for, is
None, and is logged when that begins and when it ends.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from typing import Any

import httpx

_log = logging.getLogger(__name__)
# A recall waits for its question's vector no longer than this.
_TIMEOUT_S = 2.0


class EndpointEmbedder:
    """The `Embedder` port. `url` is the base that `/embeddings` is below."""

    def __init__(
        self,
        url: str,
        model: str,
        key: str | None = None,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        self._client = httpx.Client(headers=headers, timeout=_TIMEOUT_S, transport=transport)
        self._url = url.rstrip("/") + "/embeddings"
        self._model = model
        self._is_down = False

    @property
    def model(self) -> str:
        """Return the model's name."""
        return self._model

    def embed(self, texts: Sequence[str]) -> list[list[float]] | None:
        """Ask for a vector for each text."""
        try:
            body = {"model": self._model, "input": list(texts)}
            answer = self._client.post(self._url, json=body).raise_for_status()
            found = _vectors(answer.json(), len(texts))
        except (httpx.HTTPError, ValueError) as exc:
            if not self._is_down:
                said = {"fields": {"why": f"{type(exc).__name__}: {exc}"}}
                _log.warning("embeddings cannot be had; recall goes on without", extra=said)
            self._is_down = True
            return None
        if self._is_down:
            _log.info("embeddings can be had again")
        self._is_down = False
        return found

    def close(self) -> None:
        """Close the connections."""
        self._client.close()


def _vectors(body: Any, count: int) -> list[list[float]]:
    """Read the vectors out of an answer, in the order of the texts.

    Raises:
        ValueError: there are not so many, or one is no list of finite numbers.
    """
    try:
        rows = sorted(body["data"], key=lambda row: row["index"])
        found = [[float(number) for number in row["embedding"]] for row in rows]
    except (TypeError, KeyError) as exc:
        raise ValueError("the answer is not a list of embeddings") from exc
    if len(found) != count or not all(found):
        raise ValueError(f"{len(found)} embeddings came for {count} texts")
    if not all(math.isfinite(number) for vector in found for number in vector):
        raise ValueError("an embedding has a number that is not finite")
    return found
