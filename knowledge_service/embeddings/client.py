"""Asks an OpenAI-compatible endpoint for vectors.

A recall never fails because of it: what does not come in time, or is not what was asked for, is
None, and is logged when that begins and when it ends.
"""

from __future__ import annotations

import json
import logging
import math
import time
from collections.abc import Callable, Sequence
from typing import Any

import httpx

_log = logging.getLogger(__name__)
# A recall waits for its question's vector no longer than this.
_WITHIN_S = 2.0
# After a failure nobody asks for so long: an endpoint that hangs would hold up every recall.
_REST_S = 5.0
# 64 vectors of 8,192 numbers, as text.
_LARGEST = 16 * 1024 * 1024


class EndpointEmbedder:
    """The `Embedder` port. `url` is the base that `/embeddings` is below."""

    def __init__(
        self,
        url: str,
        model: str,
        key: str | None = None,
        transport: httpx.BaseTransport | None = None,
        *,
        within_s: float = _WITHIN_S,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        self._client = httpx.Client(headers=headers, timeout=within_s, transport=transport)
        self._within_s = within_s
        self._monotonic = monotonic
        self._asked_again_at_s = float("-inf")
        self._url = url.rstrip("/") + "/embeddings"
        self._model = model
        self._is_down = False

    @property
    def model(self) -> str:
        """Return the model's name."""
        return self._model

    def embed(self, texts: Sequence[str]) -> list[list[float]] | None:
        """Ask for a vector for each text; None also for some seconds after a failure."""
        if self._monotonic() < self._asked_again_at_s:
            return None
        try:
            found = _vectors(json.loads(self._answer(texts)), len(texts))
        except (httpx.HTTPError, ValueError) as exc:
            if not self._is_down:
                said = {"fields": {"why": f"{type(exc).__name__}: {exc}"}}
                _log.warning(
                    "embeddings are unavailable; recall continues without them", extra=said
                )
            self._is_down = True
            self._asked_again_at_s = self._monotonic() + _REST_S
            return None
        if self._is_down:
            _log.info("embeddings can be had again")
        self._is_down = False
        return found

    def _answer(self, texts: Sequence[str]) -> bytes:
        """Read the answer; a bound on each piece of it is none on the whole.

        Raises:
            httpx.HTTPError: it does not come, or is a refusal.
            ValueError: it does not come in time, or is too large.
        """
        ends_at_s = time.monotonic() + self._within_s
        body = {"model": self._model, "input": list(texts)}
        found = bytearray()
        with self._client.stream("POST", self._url, json=body) as answer:
            answer.raise_for_status()
            for piece in answer.iter_bytes():
                found += piece
                if len(found) > _LARGEST:
                    raise ValueError(f"the answer is larger than {_LARGEST} bytes")
                if time.monotonic() > ends_at_s:
                    raise ValueError(f"the answer took longer than {self._within_s:g} s")
        return bytes(found)

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
