"""How the record of a run is read: which episodes are failures, and what they say. Pure.

An episode of type `check` says how a check went: `check <name> failed: <message>` (or `error`,
`passed`). One that carries an error signature counts as failed whatever its words.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from knowledge_client.models import Episode

_CHECK = re.compile(
    r"(?i)check [\"']?(?P<name>[\w./-]+)[\"']? ?[:,]? (?P<verdict>passed|failed|error)\b"
    r"[ :,.-]*(?P<message>.*)"
)
# What differs from run to run in a message that is otherwise the same.
_VARYING = re.compile(r"\b(?:0x)?[0-9a-f]{6,}\b|\d+")


# What the operator writes before the words of an attempt.
_ATTEMPT = re.compile(r"(?i)attempt \d+:\s*")
# Words for how far something is; that it "recurs" says nothing.
_STATE_NAMES = """
waiting pending running checking reviewing succeeded success failed failure error errors timedout
timeout lost unknown completed done ok cancelled aborted terminated terminating ended none null
infrastructurefailed budgetexceeded exception true false
"""
_STATES = frozenset(_STATE_NAMES.split())
# The beginning of an object or a list in JSON, whole or cut.
_RESULT = re.compile(r"\{ ?(?:\"|\}|$)|\[ ?(?:[\"{\[\d\]]|$)|\"[^\"]*\" ?:")
_EXIT_CODE = re.compile(
    r"(?i)(?:the )?(?:task |process |command |container )?(?:ended |exited |failed |terminated )?"
    r"(?:with )?(?:exit(?:ed)?[ -]?)?(?:code|status)[ :=-]*\d+\.?"
)


def names_error(text: str) -> bool:
    """Tell whether a text names an error: no state, no bare exit code, no result in JSON."""
    line = collapse_whitespace(text)
    is_result = _RESULT.match(line) is not None
    is_state = line.casefold().rstrip(".:!") in _STATES
    has_letters = any(map(str.isalpha, line))
    return has_letters and not (is_result or is_state or _EXIT_CODE.fullmatch(line))


def error_signatures(episodes: Iterable[Episode]) -> tuple[str, ...]:
    """Return the error signatures that name an error, each once, in the order they came."""
    candidates = (e.error_signature for e in episodes if e.error_signature)
    return tuple(dict.fromkeys(signature for signature in candidates if names_error(signature)))


def is_failure(episode: Episode) -> bool:
    """Tell whether an episode says what went wrong."""
    return failed_check(episode) is not None or (
        episode.type == "error" and names_error(episode_message(episode))
    )


def failure_message(episode: Episode) -> str:
    """Return what went wrong, in one line."""
    failed = failed_check(episode)
    return f"check {failed[0]}: {failed[1]}" if failed else episode_message(episode)


def failed_check(episode: Episode) -> tuple[str, str] | None:
    """Return name and message of a check that failed; None for anything else."""
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
    """Return what an episode says, in one line, without the number of the attempt."""
    return _ATTEMPT.sub("", collapse_whitespace(episode.content), count=1)


def collapse_whitespace(text: str) -> str:
    """Collapse white space."""
    return " ".join(text.split())


def normalise_message(text: str) -> str:
    """Return what two messages of one failure share: no case, no numbers, no hashes."""
    return _VARYING.sub("#", text.casefold())
