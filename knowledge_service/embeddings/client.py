"""Requests embeddings from an OpenAI-compatible endpoint.

A failing endpoint never fails a recall: late and invalid responses become None. The start and the
end of an outage are logged.
"""

from __future__ import annotations

import json
import logging
import math
import time
from collections.abc import Callable, Sequence
from typing import Any

import httpx

from knowledge_service.ports.embeddings import EmbeddingFailed

_log = logging.getLogger(__name__)
# A recall waits for the vector of its query no longer than this.
_TIMEOUT_S = 2.0
# No recall waits for a batch of facts, and a model without a GPU is slow; arbitrary.
_BATCH_TIMEOUT_S = 30.0
# The endpoint refuses the caller and not the texts.
_REFUSALS_OF_CALLER = (401, 403, 429)
# No requests for this long after a failure: a hanging endpoint would delay every recall.
_BACKOFF_S = 5.0
# 64 vectors of 8,192 numbers as text.
_MAX_RESPONSE_BYTES = 16 * 1024 * 1024


class EndpointEmbedder:
    """Implements the `Embedder` port. `url` is the base URL, without `/embeddings`."""

    def __init__(  # noqa: PLR0913 (one argument per deadline and one per seam of tests)
        self,
        url: str,
        model: str,
        key: str | None = None,
        transport: httpx.BaseTransport | None = None,
        *,
        timeout_s: float = _TIMEOUT_S,
        batch_timeout_s: float = _BATCH_TIMEOUT_S,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        self._client = httpx.Client(headers=headers, transport=transport)
        self._timeout_s = timeout_s
        self._batch_timeout_s = batch_timeout_s
        self._monotonic = monotonic
        self._retry_at_s = float("-inf")
        self._url = url.rstrip("/") + "/embeddings"
        self._model = model
        self._is_down = False

    @property
    def model(self) -> str:
        """Return the model's name."""
        return self._model

    def embed(self, texts: Sequence[str]) -> list[list[float]] | None:
        """Return a vector for each text; None on failure and for some seconds after one."""
        if self._monotonic() < self._retry_at_s:
            return None
        try:
            vectors = self._vectors(texts, self._timeout_s)
        except (httpx.HTTPError, ValueError) as exc:
            if not self._is_down:
                fields = {"fields": {"why": f"{type(exc).__name__}: {exc}"}}
                _log.warning(
                    "embeddings are unavailable; recall continues without them", extra=fields
                )
            self._is_down = True
            self._retry_at_s = self._monotonic() + _BACKOFF_S
            return None
        if self._is_down:
            _log.info("embeddings can be had again")
        self._is_down = False
        return vectors

    def embed_batch(self, texts: Sequence[str]) -> list[list[float]]:
        """Return a vector for each text, with a longer deadline.

        A failure is the caller's to handle: recalls go on to request vectors.

        Raises:
            EmbeddingFailed: no vectors came.
        """
        try:
            return self._vectors(texts, self._batch_timeout_s)
        except (httpx.HTTPError, ValueError) as exc:
            raise EmbeddingFailed(
                f"{type(exc).__name__}: {exc}", may_be_the_texts=_may_be_the_texts(exc)
            ) from exc

    def _vectors(self, texts: Sequence[str], timeout_s: float) -> list[list[float]]:
        return _parse_vectors(json.loads(self._request(texts, timeout_s)), len(texts))

    def _request(self, texts: Sequence[str], timeout_s: float) -> bytes:
        """Return the response body, with a deadline for the whole and not for each chunk alone.

        Raises:
            httpx.HTTPError: no response, or an error status.
            ValueError: the response is late or too large.
        """
        deadline_s = time.monotonic() + timeout_s
        body = {"model": self._model, "input": list(texts)}
        content = bytearray()
        with self._client.stream("POST", self._url, json=body, timeout=timeout_s) as response:
            response.raise_for_status()
            for chunk in response.iter_bytes():
                content += chunk
                if len(content) > _MAX_RESPONSE_BYTES:
                    raise ValueError(f"the answer is larger than {_MAX_RESPONSE_BYTES} bytes")
                if time.monotonic() > deadline_s:
                    raise ValueError(f"the answer took longer than {timeout_s:g} s")
        return bytes(content)

    def close(self) -> None:
        """Close the connections."""
        self._client.close()


def _may_be_the_texts(exc: httpx.HTTPError | ValueError) -> bool:
    """Return whether fewer or other texts may succeed; also a server error may be due to a text."""
    if isinstance(exc, httpx.HTTPStatusError):
        return exc.response.status_code not in _REFUSALS_OF_CALLER
    return not isinstance(exc, httpx.ConnectError | httpx.ConnectTimeout | httpx.PoolTimeout)


def _parse_vectors(body: Any, count: int) -> list[list[float]]:
    """Return the vectors of a response, in the order of the texts.

    Raises:
        ValueError: the number of vectors is wrong, or one is not a list of finite numbers.
    """
    try:
        rows = sorted(body["data"], key=lambda row: row["index"])
        vectors = [[float(number) for number in row["embedding"]] for row in rows]
    except (TypeError, KeyError) as exc:
        raise ValueError("the answer is not a list of embeddings") from exc
    if len(vectors) != count or not all(vectors):
        raise ValueError(f"{len(vectors)} embeddings came for {count} texts")
    if not all(math.isfinite(number) for vector in vectors for number in vector):
        raise ValueError("an embedding has a number that is not finite")
    return vectors
