"""Settings of embeddings from the environment; without a URL there are no embeddings."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from knowledge_service.errors import StartupError


@dataclass(frozen=True)
class Embeddings:
    """An OpenAI-compatible endpoint: base URL, model, and an optional key."""

    url: str
    model: str
    key: str | None


def read(environment: Mapping[str, str] | None = None) -> Embeddings | None:
    """Read KAIS_EMBEDDINGS_URL, _MODEL and _KEY_FILE; None without a URL.

    Raises:
        StartupError: the URL is invalid, the model is missing, or the key cannot be read.
    """
    env = os.environ if environment is None else environment
    url = env.get("KAIS_EMBEDDINGS_URL", "").strip()
    if not url:
        return None
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise StartupError(
            "KAIS_EMBEDDINGS_URL is no http(s) address; give the base that /embeddings is below"
        )
    model = env.get("KAIS_EMBEDDINGS_MODEL", "").strip()
    if not model:
        raise StartupError("KAIS_EMBEDDINGS_MODEL is missing; name the model of the endpoint")
    file = env.get("KAIS_EMBEDDINGS_KEY_FILE", "").strip()
    try:
        key = Path(file).read_text(encoding="utf-8").strip() if file else None
    except OSError as exc:
        raise StartupError(
            f"KAIS_EMBEDDINGS_KEY_FILE cannot be read ({exc.strerror}); check the mount"
        ) from exc
    return Embeddings(url, model, key or None)
