"""What ranking reads of a fact that may be an answer: a row without data, as the store has it.

Rows are read by the hundred, so they stay tuples; what only few of them need (tags, references,
who speaks) is worked out when it is asked for. Pure.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Hashable
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

# `Anna: text`, `[7 May, 14:05] Anna: text`, `Anna said ...`; at most three words of a name.
_SPEAKER = re.compile(
    r"(?:[\[(][^\])\n]{0,60}[\])]\s*)?([A-Z][\w'.-]{0,30}(?: [A-Z][\w'.-]{0,30}){0,2})"
    r"\s*(?:\([^)\n]{0,40}\)\s*)?(?::| said\b| says\b| asked\b| wrote\b)"
)
_TALK = re.compile(r"(?i)session|conversation|thread|dialog|chat|meeting|channel|call|interview")
_TURN = re.compile(r"(?i)turn|message|utterance|line|post|dia_id|comment|^dia$")
_TALK_TAG = re.compile(
    r'(?i)"((?:session|conv(?:ersation)?|dialog(?:ue)?|chat|thread|meeting|day)'
    r'[-_:/ #]?[^"]{0,40}\d)"'
)
_TURN_ID = re.compile(r"(.*\d.*)[:#/.]\d+")
_DAY_US = 86_400_000_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Candidate(NamedTuple):
    """A row of a fact; moments are microseconds since 1970, tags and source are JSON."""

    number: int
    scope_no: int
    kind: str
    title: str | None
    content: str
    tags_json: str
    subject: str | None
    predicate: str | None
    about: str | None
    position: int | None
    source_json: str
    confidence: float
    lifecycle: str
    review: str
    expires_us: int | None
    valid_from_us: int | None
    valid_until_us: int | None
    recorded_us: int
    closed_us: int | None
    flags_json: str = "[]"

    @property
    def tags(self) -> tuple[str, ...]:
        """Return the tags as they were spelt."""
        return tuple(json.loads(self.tags_json))

    @property
    def flags(self) -> tuple[str, ...]:
        """Return its flags."""
        return tuple(json.loads(self.flags_json))

    @property
    def valid_from(self) -> datetime | None:
        """Return since when it holds in the world."""
        return _moment(self.valid_from_us)

    @property
    def valid_until(self) -> datetime | None:
        """Return until when it holds in the world."""
        return _moment(self.valid_until_us)

    @property
    def recorded_at(self) -> datetime:
        """Return since when it is known."""
        return _EPOCH + timedelta(microseconds=self.recorded_us)

    @property
    def closed_at(self) -> datetime | None:
        """Return when it was closed."""
        return _moment(self.closed_us)

    @property
    def key(self) -> tuple[str, str] | None:
        """Return the key of supersession, case-folded; None unless both halves are there."""
        if self.subject and self.predicate:
            return self.subject.casefold(), self.predicate.casefold()
        return None

    @property
    def since_us(self) -> int:
        """Return when it began to hold, as far as anybody said."""
        return self.recorded_us if self.valid_from_us is None else self.valid_from_us


def speaker(row: Candidate) -> str | None:
    """Return who says the content, case-folded; None unless it is put as somebody's words."""
    match = _SPEAKER.match(row.content)
    return match[1].casefold() if match else None


def session(row: Candidate) -> Hashable | None:
    """Name what a fact is a part of: facts of one session stand beside each other.

    The entity it is about, the session or run that it refers to, a tag such as `session_3`, or, for
    somebody's words, the day they are of. None when nothing ties it to others.
    """
    if row.about:
        return row.scope_no, "about", row.about
    if '"refs":[{' in row.source_json:
        return row.scope_no, "ref", _referred(json.loads(row.source_json)["refs"])
    tag = _talk_tag(row.tags_json)
    if tag:
        return row.scope_no, "tag", tag
    if speaker(row) is None:
        return None
    return row.scope_no, "day", None if row.valid_from_us is None else row.valid_from_us // _DAY_US


@functools.lru_cache(maxsize=4096)
def _talk_tag(tags_json: str) -> str | None:
    match = _TALK_TAG.search(tags_json)
    return match[1].casefold() if match else None


def _referred(refs: list[dict[str, Any]]) -> tuple[str, str]:
    kind, name = refs[0]["type"], refs[0]["id"]
    for ref in refs:
        if _TALK.search(ref["type"]):
            kind, name = ref["type"], ref["id"]
            break
    else:
        for ref in refs:
            if _TURN.search(ref["type"]):
                kind, name = ref["type"], ref["id"]
    # `D1:3` is the third turn of D1, whatever it is called.
    turn = _TURN_ID.fullmatch(name)
    return kind, turn[1] if turn else name


def _moment(us: int | None) -> datetime | None:
    return None if us is None else _EPOCH + timedelta(microseconds=us)
