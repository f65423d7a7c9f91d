"""Parses the episodes of a run: finds failures and their messages. Pure.

An episode of type `check` reports a check: `check <name> failed: <message>` (or `error`, `passed`).
One with an error signature counts as failed whatever its text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from knowledge_client.models import Episode

_CHECK = re.compile(
    r"(?i)check [\"']?(?P<name>[\w./-]+)[\"']? ?[:,]? (?P<verdict>passed|failed|error)\b"
    r"[ :,.-]*(?P<message>.*)"
)
# The parts of a message that differ from run to run.
_VARYING = re.compile(r"\b(?:0x)?[0-9a-f]{6,}\b|\d+")


# The prefix that the operator adds to the message of an attempt.
_ATTEMPT = re.compile(r"(?i)attempt \d+:\s*")
# Names of states: a recurring state is not an error.
_STATE_NAMES = """
waiting pending running checking reviewing succeeded success failed failure error errors timedout
timeout lost unknown completed done ok cancelled aborted terminated terminating ended none null
infrastructurefailed budgetexceeded exception true false
"""
_STATES = frozenset(_STATE_NAMES.split())
# The beginning of a JSON object or list, complete or truncated.
_RESULT = re.compile(r"\{ ?(?:\"|\}|$)|\[ ?(?:[\"{\[\d\]]|$)|\"[^\"]*\" ?:")
_EXIT_CODE = re.compile(
    r"(?i)(?:the )?(?:task |process |command |container )?(?:ended |exited |failed |terminated )?"
    r"(?:with )?(?:exit(?:ed)?[ -]?)?(?:code|status)[ :=-]*\d+\.?"
)


def names_error(text: str) -> bool:
    """Return whether a text names an error, not a state, a bare exit code or a result in JSON."""
    line = collapse_whitespace(text)
    is_result = _RESULT.match(line) is not None
    is_state = line.casefold().rstrip(".:!") in _STATES
    has_letters = any(map(str.isalpha, line))
    return has_letters and not (is_result or is_state or _EXIT_CODE.fullmatch(line))


def error_signatures(episodes: Iterable[Episode]) -> tuple[str, ...]:
    """Return the distinct error signatures that name an error, in order of occurrence."""
    candidates = (e.error_signature for e in episodes if e.error_signature)
    return tuple(dict.fromkeys(signature for signature in candidates if names_error(signature)))


def is_failure(episode: Episode) -> bool:
    """Return whether an episode describes a failure."""
    return failed_check(episode) is not None or (
        episode.type == "error" and names_error(episode_message(episode))
    )


def failure_message(episode: Episode) -> str:
    """Return the failure's message in one line."""
    failed = failed_check(episode)
    return f"check {failed[0]}: {failed[1]}" if failed else episode_message(episode)


def failed_check(episode: Episode) -> tuple[str, str] | None:
    """Return the name and message of a failed check; None for any other episode."""
    if episode.type != "check":
        return None
    match = _CHECK.fullmatch(episode_message(episode))
    if match is None:
        signature = episode.error_signature
        is_error = signature is not None and names_error(signature)
        return (signature, episode_message(episode)) if signature and is_error else None
    if match["verdict"].lower() == "passed" and not episode.error_signature:
        return None
    return (match["name"], match["message"]) if names_error(match["message"]) else None


def episode_message(episode: Episode) -> str:
    """Return an episode's text in one line, without the number of the attempt."""
    return _ATTEMPT.sub("", collapse_whitespace(episode.content), count=1)


def collapse_whitespace(text: str) -> str:
    """Collapse white space."""
    return " ".join(text.split())


def normalise_message(text: str) -> str:
    """Remove what differs between messages of one failure: case, numbers and hashes."""
    return _VARYING.sub("#", text.casefold())
