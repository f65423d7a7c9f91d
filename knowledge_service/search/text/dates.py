"""Dates in texts and queries: calendar days, months and years as intervals.

The module understands `2023-05-07`, `7 May 2023`, `May 7th`, `May 2023`, `2023` and `summer 2023`;
in queries also `before May 2023`; and relative dates: yesterday, last week, three months ago, on
Friday, next month, last summer. Pure; reads no clock.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta

from knowledge_service.search.text.english import MONTHS, WEEKDAYS

_NAMES = {name: n for n, month in enumerate(MONTHS, 1) for name in (month, month[:3])} | {"sept": 9}
# `May` and `March` are also words: a month without day and year must have a capital letter.
_MONTH = "(?P<m>" + "|".join(sorted(_NAMES, key=len, reverse=True)) + r")\b\.?"
# The first month of each season in the northern hemisphere; winter extends into the next year.
_SEASONS = {"spring": 3, "summer": 6, "autumn": 9, "fall": 9, "winter": 12}
_DAY = r"(?P<d>\d{1,2})(?:st|nd|rd|th)?"
_YEAR = r"(?P<y>(?:19|20)\d{2})\b"
_ISO = re.compile(r"\b(?P<y>(?:19|20)\d{2})-(?P<m>\d{2})(?:-(?P<d>\d{2}))?(?![\d-])")
_WRITTEN = (
    re.compile(rf"(?i)\b{_DAY}\s+(?:of\s+)?{_MONTH}(?:,?\s+{_YEAR})?"),
    re.compile(rf"(?i)\b{_MONTH}\s+{_DAY}\b(?!:)(?:,?\s+{_YEAR})?"),
    re.compile(rf"(?i)\b{_MONTH},?\s+(?:of\s+)?{_YEAR}"),
)
_LONE_MONTH = re.compile(r"\b(?P<m>" + "|".join(m.capitalize() for m in MONTHS) + r")\b")
_LONE_YEAR = re.compile(rf"\b(?:in|of|since|during|year)\s+{_YEAR}")
# A calendar date has a year or the name of a month; most queries have neither.
_CALENDAR = re.compile(rf"(?i)(?:19|20)\d{{2}}|\b{_MONTH}")
MONTH_WORDS = frozenset(form for name in _NAMES for form in (name, name.capitalize(), name.upper()))
"""Every usual spelling of a month's name; a cheap test before the patterns."""
_AGO = re.compile(r"(?i)\b(?P<n>\d+|an?|two|three|four|five|six|seven|eight|nine|ten)\s+"
                  r"(?P<unit>day|week|month|year)s?\s+ago\b")  # fmt: skip
_RELATIVE_PERIOD = re.compile(r"(?i)\b(?P<which>last|past|this|previous|next|on)\s+"
                   r"(?P<unit>week(?:end)?|month|year|"
                   + "|".join((*WEEKDAYS, *_SEASONS)) + r")\b")  # fmt: skip
_SEASON = re.compile(rf"(?i)\b(?P<s>{'|'.join(_SEASONS)})\s+(?:of\s+)?{_YEAR}")
_DAY_WORD = re.compile(r"(?i)\b(?P<word>today|yesterday|tonight|tomorrow)\b")
_RELATIVE = re.compile(r"(?i)\b(?:ago|last|past|this|previous|next|on|to(?:day|night|morrow)"
                       r"|yesterday)\b")  # fmt: skip
_COMPARED = re.compile(r"(?i)\b(?P<how>before|until|prior to|after|since)\s+(?:the\s+)?")
_NUMBER_WORDS = {"a": 1, "an": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7,
            "eight": 8, "nine": 9, "ten": 10}  # fmt: skip
_DAY_OFFSETS = {"yesterday": -1, "tomorrow": 1}
# Long enough for `30th of September, 2023`; arbitrary.
_LONGEST_DATE = 32
# A longer span is represented by its first days, a little more than a month.
_MOST_DAYS = 40
# The years of `today` for which a century before and a year after are still in the calendar.
_FIRST_YEAR, _LAST_YEAR = 200, 9900
_LONG = {"day": 1, "week": 7, "month": 30, "year": 365}


@dataclass(frozen=True)
class Moment:
    """A calendar date as far as it is known; `year` 0 for any year, `day` 0 for a whole month."""

    year: int
    month: int
    day: int

    @property
    def terms(self) -> tuple[str, ...]:
        """Return the index terms: the month, the day, and the day of any year."""
        date_terms = []
        if self.year and self.month:
            date_terms.append(f"d:{self.year:04}-{self.month:02}")
            if self.day:
                date_terms.append(f"d:{self.year:04}-{self.month:02}-{self.day:02}")
        if self.month and self.day:
            date_terms.append(f"d:{self.month:02}-{self.day:02}")
        return tuple(date_terms)

    def holds(self, moment: datetime) -> bool:
        """Return whether a time lies in the period."""
        return (
            self.year in (0, moment.year)
            and self.month in (0, moment.month)
            and self.day in (0, moment.day)
        )


@dataclass(frozen=True)
class Span:
    """Days from `first` up to and including `last`."""

    first: date
    last: date

    def holds(self, moment: datetime) -> bool:
        """Return whether a time lies in the span."""
        return self.first <= moment.date() <= self.last

    @property
    def moments(self) -> Iterator[datetime]:
        """Yield the start of each day, at most of the first `_MOST_DAYS` days."""
        for days in range(min((self.last - self.first).days + 1, _MOST_DAYS)):
            yield datetime.combine(self.first + timedelta(days=days), time(), UTC)


def dates_in_text(text: str) -> tuple[Moment, ...]:
    """Return the dates that a text names, without duplicates."""
    moments = dict.fromkeys([*iso_dates(text), *named_dates(text)])
    # `7 May 2023` includes `May 2023`, which is less precise.
    days = {(moment.year, moment.month) for moment in moments if moment.day}
    return tuple(
        moment for moment in moments if moment.day or (moment.year, moment.month) not in days
    )


def iso_dates(text: str) -> Iterator[Moment]:
    """Yield the dates in digits, in the format of ISO 8601."""
    for match in _ISO.finditer(text):
        yield from _checked(int(match["y"]), int(match["m"]), int(match["d"] or 0))


def named_dates(text: str) -> Iterator[Moment]:
    """Yield the dates that have the name of a month, and a day or a year."""
    for pattern in _WRITTEN:
        for match in pattern.finditer(text):
            groups = match.groupdict()
            year, day = int(groups.get("y") or 0), int(groups.get("d") or 0)
            yield from _checked(year, _NAMES[match["m"].lower()], day)


def _checked(year: int, month: int, day: int) -> Iterator[Moment]:
    try:
        date(year or 2000, month, day or 1)
    except ValueError:
        return
    yield Moment(year, month, day)


def dates_in_query(question: str, now: datetime) -> tuple[Moment | Span, ...]:
    """Return the dates that a query is about; relative dates count from `now`."""
    calendar_dates = _of_calendar(question) if _CALENDAR.search(question) else []
    return tuple(dict.fromkeys([*calendar_dates, *relative(question, now.astimezone(UTC).date())]))


def _of_calendar(question: str) -> list[Moment | Span]:
    periods: list[Moment | Span] = [
        _season(m["s"], int(m["y"])) for m in _SEASON.finditer(question)
    ]
    compared = comparisons(question)
    periods += [compared.get(moment, moment) for moment in dates_in_text(question)]
    if not periods:
        periods += [Moment(0, _NAMES[m["m"].lower()], 0) for m in _LONE_MONTH.finditer(question)]
        periods += [Moment(int(m["y"]), 0, 0) for m in _LONE_YEAR.finditer(question)]
    return periods


def comparisons(question: str) -> dict[Moment, Span]:
    """Return the dates that follow "before", "after" or "since", each with the span it limits."""
    has_comparison = _COMPARED.search(question) and _CALENDAR.search(question)
    return dict(_find_comparisons(question)) if has_comparison else {}


def _find_comparisons(question: str) -> Iterator[tuple[Moment, Span]]:
    for match in _COMPARED.finditer(question):
        rest = question[match.end() : match.end() + _LONGEST_DATE]
        if not any(pattern.match(rest) for pattern in (_ISO, *_WRITTEN)):
            continue
        moment = next(iter(dates_in_text(rest)), None)
        if moment is None or not moment.year:
            continue
        first, last = _days(moment)
        comparison = match["how"].lower()
        if comparison in ("after", "since"):
            yield (
                moment,
                Span(first if comparison == "since" else last + timedelta(days=1), date.max),
            )
        else:
            yield moment, Span(date.min, first - timedelta(days=1))


def _days(moment: Moment) -> tuple[date, date]:
    """Return the first and last day of a month, or of a single day."""
    first = date(moment.year, moment.month, moment.day or 1)
    if moment.day:
        return first, first
    return first, (first + timedelta(days=31)).replace(day=1) - timedelta(days=1)


def _season(name: str, year: int) -> Span:
    month = _SEASONS[name.lower()]
    last = date(year + (month == _SEASONS["winter"]), (month + 2) % 12 or 12, 28)
    return Span(date(year, month, 1), (last + timedelta(days=4)).replace(day=1) - timedelta(days=1))


def relative(text: str, today: date) -> Iterator[Span]:
    """Yield the spans that a text names relative to `today`; none near the ends of the calendar."""
    if not (_RELATIVE.search(text) and _FIRST_YEAR <= today.year <= _LAST_YEAR):
        return
    for match in _DAY_WORD.finditer(text):
        day = today + timedelta(days=_DAY_OFFSETS.get(match["word"].lower(), 0))
        yield Span(day, day)
    for match in _AGO.finditer(text):
        number_word = match["n"].lower()
        count, days = (
            _NUMBER_WORDS.get(number_word) or int(number_word[:4]),
            _LONG[match["unit"].lower()],
        )
        # "n months ago" is approximate: allow half a unit on both sides.
        middle, slack = min(count * days, 36_500), days // 2
        yield Span(today - timedelta(days=middle + slack), today - timedelta(days=middle - slack))
    for match in _RELATIVE_PERIOD.finditer(text):
        direction, unit = match["which"].lower(), match["unit"].lower()
        if direction == "next":
            yield _next_period(unit, today)
        elif direction != "on" or unit in WEEKDAYS:
            yield _past_period(direction, unit, today)


def _next_period(unit: str, today: date) -> Span:
    if unit in WEEKDAYS:
        day = today + timedelta(days=(WEEKDAYS.index(unit) - today.weekday()) % 7 or 7)
        return Span(day, day)
    if unit in _SEASONS:
        start = _season(unit, today.year)
        return start if start.first > today else _season(unit, today.year + 1)
    monday = today + timedelta(days=7 - today.weekday())
    if unit == "weekend":
        return Span(monday - timedelta(days=2), monday + timedelta(days=6))
    if unit == "week":
        return Span(monday, monday + timedelta(days=6))
    if unit == "year":
        return Span(date(today.year + 1, 1, 1), date(today.year + 1, 12, 31))
    first = (today.replace(day=1) + timedelta(days=31)).replace(day=1)
    return Span(first, _days(Moment(first.year, first.month, 0))[1])


def _past_period(direction: str, unit: str, today: date) -> Span:
    if unit in WEEKDAYS:
        days_back = (today.weekday() - WEEKDAYS.index(unit)) % 7
        day = today - timedelta(days=days_back if direction == "this" else days_back or 7)
        return Span(day, day)
    if unit in _SEASONS:
        start_of_period = _season(unit, today.year)
        return (
            start_of_period
            if direction == "this" or start_of_period.last < today
            else _season(unit, today.year - 1)
        )
    if unit == "weekend":
        sunday = today + timedelta(
            days=6 - today.weekday() if direction == "this" else -1 - today.weekday()
        )
        return Span(sunday - timedelta(days=1), sunday)
    if direction == "past":
        return Span(today - timedelta(days=_LONG[unit]), today)
    starts = {
        "week": today - timedelta(days=today.weekday()),
        "month": today.replace(day=1),
        "year": today.replace(month=1, day=1),
    }
    start = starts[unit]
    if direction == "this":
        return Span(start, today)
    preceding = start - timedelta(days=1)
    first = {
        "week": preceding - timedelta(days=6),
        "month": preceding.replace(day=1),
        "year": preceding.replace(month=1, day=1),
    }
    return Span(first[unit], preceding)
