"""The duration grammar of timeouts: hours, minutes and seconds, each optional, in this order.

`90s`, `10m`, `1h30m10s` are durations; zero, fractions and other units are none.
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


def format_duration(duration: timedelta) -> str:
    """Format a duration in the grammar, rounded to seconds; anything under one second is `1s`."""
    seconds = max(1, round(duration.total_seconds()))
    parts = ((seconds // 3600, "h"), (seconds % 3600 // 60, "m"), (seconds % 60, "s"))
    return "".join(f"{count}{unit}" for count, unit in parts if count)
