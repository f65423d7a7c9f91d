"""The row of a fact that may be an answer, as the store has it.

Rows are read by the hundred, so they stay tuples. Values that only few of them need (tags, times)
are decoded on access. `conversations` determines the speaker and the session. Pure.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

MOST_DATA = 2048
"""The maximum bytes of data read with a row; speakers are named in small data. Arbitrary."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Candidate(NamedTuple):
    """A row of a fact; times are microseconds since 1970, tags, source and data are JSON.

    Data of more than `MOST_DATA` bytes is left out of `data_json`. Only a query with facets reads
    `all_data_json`. `title_of` is the type of the entity of the same scope whose title the fact is.
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
    schema_: str | None = None
    all_data_json: str | None = None
    title_of: str | None = None

    @property
    def data(self) -> Any:
        """Return all data, for facets."""
        return json.loads(self.all_data_json or "null")

    @property
    def tags(self) -> tuple[str, ...]:
        """Return the tags in their original spelling."""
        return tuple(json.loads(self.tags_json))

    @property
    def flags(self) -> tuple[str, ...]:
        """Return the flags."""
        return tuple(json.loads(self.flags_json))

    @property
    def valid_from(self) -> datetime | None:
        """Return the start of its validity in the world."""
        return _moment(self.valid_from_us)

    @property
    def valid_until(self) -> datetime | None:
        """Return the end of its validity in the world."""
        return _moment(self.valid_until_us)

    @property
    def recorded_at(self) -> datetime:
        """Return the time when it was recorded."""
        return _EPOCH + timedelta(microseconds=self.recorded_us)

    @property
    def closed_at(self) -> datetime | None:
        """Return the time when it was closed."""
        return _moment(self.closed_us)

    @property
    def key(self) -> tuple[str, str] | None:
        """Return the key of supersession, case-folded; None if a part is missing."""
        if self.subject and self.predicate:
            return self.subject.casefold(), self.predicate.casefold()
        return None

    @property
    def since_us(self) -> int:
        """Return the start of its validity, or else the time when it was recorded."""
        return self.recorded_us if self.valid_from_us is None else self.valid_from_us


def short(data_json: str | None) -> str | None:
    """Return the data, or None if it is larger than `MOST_DATA`."""
    return None if data_json is None or len(data_json.encode()) > MOST_DATA else data_json


def _moment(us: int | None) -> datetime | None:
    return None if us is None else _EPOCH + timedelta(microseconds=us)
