"""The duration grammar of timeouts: hours, minutes and seconds, each optional, in this order.

`90s`, `10m`, `1h30m10s` are durations; zero, fractions and other units are none. Options that
kubectl has too take its grammar, which is that of Go.
"""

import re
from datetime import timedelta

_PATTERN = r"^([0-9]{1,6}h)?([0-9]{1,6}m)?([0-9]{1,6}s)?$"
_GRAMMAR = re.compile(_PATTERN)

CEL = f"self.matches('{_PATTERN}') && self.matches('[1-9]')"
"""The same grammar as a rule of the API server."""
MESSAGE = "must be a duration above zero such as 90s, 10m or 1h30m10s"


def parse(text: str) -> timedelta:
    """Parse a duration.

    Raises:
        ValueError: The text is not a duration or is zero; the message contains the grammar.
    """
    match = _GRAMMAR.fullmatch(text)
    if match is None or not any(digit in text for digit in "123456789"):
        raise ValueError(f'{MESSAGE}, got "{text}"')
    hours, minutes, seconds = (int(part[:-1]) if part else 0 for part in match.groups())
    return timedelta(hours=hours, minutes=minutes, seconds=seconds)


_GO_TERM = re.compile(r"([0-9]+\.?[0-9]*|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h)")
_GO_GRAMMAR = re.compile(rf"(?:{_GO_TERM.pattern})+|0")
_MICROSECONDS = {
    "ns": 1e-3, "us": 1, "µs": 1, "μs": 1, "ms": 1e3, "s": 1e6, "m": 60e6, "h": 3600e6,
}  # fmt: skip


def parse_go(text: str) -> timedelta:
    """Parse a duration of Go that is not negative: `1.5h`, `500ms`, `0`.

    Raises:
        ValueError: The text is not one, or is too long.
    """
    message = f'must be a duration such as 90s, 1.5h or 500ms, got "{text}"'
    if _GO_GRAMMAR.fullmatch(text) is None:
        raise ValueError(message)
    terms = _GO_TERM.findall(text)
    try:
        return timedelta(microseconds=sum(float(n) * _MICROSECONDS[unit] for n, unit in terms))
    except OverflowError as exc:
        raise ValueError(message) from exc


def format_duration(duration: timedelta) -> str:
    """Format a duration in the grammar, rounded to seconds; anything under one second is `1s`."""
    seconds = max(1, round(duration.total_seconds()))
    parts = ((seconds // 3600, "h"), (seconds % 3600 // 60, "m"), (seconds % 60, "s"))
    return "".join(f"{count}{unit}" for count, unit in parts if count)
