"""Facts: their kinds and limits, and when two of them are equal.

Two facts are equal if their hashes are equal. This module does not judge whether a fact is true.
"""

import functools
import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from kais.normalization import normalized


class Kind(StrEnum):
    """The predefined kinds of facts; a scope may use others, see `is_kind`."""

    FACT = "fact"
    PITFALL = "pitfall"
    PATTERN = "pattern"
    TOOL_QUIRK = "tool-quirk"
    QUESTION = "question"
    INSIGHT = "insight"
    EXPERIENCE = "experience"
    ENTITY = "entity"


@dataclass(frozen=True)
class Limits:
    """The size limits of a fact, in characters unless the name says bytes."""

    title: int = 200
    content: int = 8192
    data_bytes: int = 65536
    tags: int = 32
    tag: int = 64
    key: int = 512
    refs: int = 32
    kind: int = 63


LIMITS = Limits()
DEFAULT_CONFIDENCE = 0.5
"""The confidence of a fact that is remembered over REST without one."""
_KIND = re.compile(r"[a-z][a-z0-9-]*")


def is_kind(text: str) -> bool:
    """Whether a text is a valid kind: lower-case letters, digits and hyphens, within the limit."""
    return len(text) <= LIMITS.kind and _KIND.fullmatch(text) is not None


def normalize_content(text: str) -> str:
    """Return the content for comparisons: in NFC, with each run of white space as one space."""
    return " ".join(normalized("NFC", text).split())


def normalize_key(text: str | None) -> str | None:
    """Return a subject or predicate for comparisons: normalised and case-folded; None if empty."""
    if text is None:
        return None
    return normalized("NFC", normalize_content(text).casefold()) or None


def normalize_tag(tag: str) -> str:
    """Return a tag for comparisons; the original spelling is stored too."""
    return normalize_content(tag).casefold()


def merge_tags(existing: Iterable[str], added: Iterable[str]) -> list[str]:
    """Merge tags without duplicates; keeps the first spelling, and at most `LIMITS.tags` tags."""
    spellings: dict[str, str] = {}
    for tag in (*existing, *added):
        spellings.setdefault(normalize_tag(tag), tag)
    return [tag for key, tag in spellings.items() if key][: LIMITS.tags]


@dataclass(frozen=True)
class Statement:
    """The content of a fact, without author, scope and confidence."""

    kind: str
    content: str
    subject: str | None = None
    predicate: str | None = None
    about: str | None = None
    data: Mapping[str, Any] | None = None


def equality_hash_hex(statement: Statement) -> str:
    """Return the SHA-256, in hex, that equal facts of a scope share.

    `about` (the fact ID of an entity) replaces the subject. Case matters in the content, but not
    in the subject and predicate.
    """
    entity = statement.about
    subject = ("about", entity) if entity else ("subject", normalize_key(statement.subject))
    texts = (
        _json_string(statement.kind),
        f"[{_json_string(subject[0])},{_json_string(subject[1])}]",
        _json_string(normalize_key(statement.predicate)),
        _json_string(normalize_content(statement.content)),
        _CANONICAL_JSON.encode(statement.data) if statement.data else "null",
    )
    return hashlib.sha256(f"[{','.join(texts)}]".encode()).hexdigest()


def simple_equality_digest(kind: str, content: str) -> bytes | None:
    """Hash a statement with only kind and content; None if it exceeds a limit.

    Returns the same bytes as `equality_hash_hex`, at a third of the cost.
    """
    prefix = _json_prefix(kind)
    if prefix is None or len(content) > LIMITS.content:
        return None
    is_normal = content.isascii() and content.isprintable() and "  " not in content
    if not is_normal or content[:1] == " " or content[-1:] == " ":
        content = normalize_content(content)
    if not content:
        return None
    return hashlib.sha256(f"{prefix}{_json_string(content)},null]".encode()).digest()


@functools.lru_cache(maxsize=256)
def _json_prefix(kind: str) -> str | None:
    """Return the part before the content in the hashed text; None for an invalid kind."""
    return f'[{_json_string(kind)},["subject",null],null,' if is_kind(kind) else None


def _json_string(value: str | None) -> str:
    """Encode a text as JSON; an encoder object would cost ten times as much."""
    return "null" if value is None else json.encoder.encode_basestring(value)


_COMPACT_JSON = json.JSONEncoder(
    separators=(",", ":"), ensure_ascii=False, allow_nan=False, default=dict
)
_CANONICAL_JSON = json.JSONEncoder(
    sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False, default=dict
)


def violations(statement: Statement, *, title: str | None = None) -> list[str]:
    """Return a message for every limit that a statement breaks."""
    problems = []
    if not is_kind(statement.kind):
        problems.append(
            f'kind "{statement.kind[:80]}" must be up to {LIMITS.kind} lower-case letters, digits '
            "and hyphens, beginning with a letter"
        )
    if not statement.content.strip():
        problems.append("content is empty")
    if len(statement.content) > LIMITS.content:
        problems.append(
            f"content has {len(statement.content)} characters; the maximum is {LIMITS.content}"
        )
    if title is not None and len(title) > LIMITS.title:
        problems.append(f"title has {len(title)} characters; the maximum is {LIMITS.title}")
    for name, key in (("subject", statement.subject), ("predicate", statement.predicate)):
        if key is not None and len(key) > LIMITS.key:
            problems.append(f"{name} has {len(key)} characters; the maximum is {LIMITS.key}")
    return problems + _data_violations(statement.data)


def _data_violations(data: Mapping[str, Any] | None) -> list[str]:
    if not data:
        return []
    try:
        size = len(_COMPACT_JSON.encode(data).encode())
    except ValueError:
        return ["data holds a number that is NaN or infinite, which JSON does not have"]
    if size > LIMITS.data_bytes:
        return [f"data has {size} bytes; the maximum is {LIMITS.data_bytes}"]
    return []
