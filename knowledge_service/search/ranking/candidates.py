"""What ranking reads of a fact that may be an answer: a row as the store has it.

Rows are read by the hundred, so they stay tuples; what only few of them need (tags, moments) is
worked out when it is asked for. Who speaks, and in which session, is for `speakers` and `sessions`
to say. Pure.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

MOST_DATA = 2048
"""So many bytes of data are read with a row; who speaks stands in small data. Arbitrary."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Candidate(NamedTuple):
    """A row of a fact; moments are microseconds since 1970, tags, source and data are JSON.

    Data of more than `MOST_DATA` bytes is left out.
    """

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
    data_json: str | None = None

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


def short(data_json: str | None) -> str | None:
    """Return data unless there is more of it than is read with a row."""
    return None if data_json is None or len(data_json.encode()) > MOST_DATA else data_json


def _moment(us: int | None) -> datetime | None:
    return None if us is None else _EPOCH + timedelta(microseconds=us)
