"""Decides whether two episodes of an attempt are equal. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from knowledge_service.domain.facts import canonical


def identity_hash(episode: Mapping[str, Any]) -> bytes:
    """Hash the type, content, error signature and references of an event log's episode."""
    signature = episode.get("error_signature")
    identity = [episode["type"], episode["content"], signature, episode["refs"]]
    return hashlib.sha256(canonical(identity).encode()).digest()
