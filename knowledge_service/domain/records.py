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


def signatures(episodes: Iterable[Episode]) -> tuple[str, ...]:
    """Return the error signatures in a record, each once, in the order they came."""
    return tuple(dict.fromkeys(e.error_signature for e in episodes if e.error_signature))


def is_failure(episode: Episode) -> bool:
    """Tell whether an episode says that something went wrong."""
    return episode.type == "error" or failed_check(episode) is not None


def failure(episode: Episode) -> str:
    """Return what went wrong, in one line."""
    failed = failed_check(episode)
    return f"check {failed[0]}: {failed[1]}" if failed else message(episode)


def failed_check(episode: Episode) -> tuple[str, str] | None:
    """Return name and message of a check that failed; None for anything else."""
    if episode.type != "check":
        return None
    match = _CHECK.fullmatch(message(episode))
    if match is None:
        signature = episode.error_signature
        return (signature, message(episode)) if signature else None
    if match["verdict"].lower() == "passed" and not episode.error_signature:
        return None
    return match["name"], match["message"] or match["verdict"].lower()


def message(episode: Episode) -> str:
    """Return what an episode says, in one line."""
    return one_line(episode.content)


def one_line(text: str) -> str:
    """Collapse white space."""
    return " ".join(text.split())


def normal(text: str) -> str:
    """Return what two messages of one failure share: no case, no numbers, no hashes."""
    return _VARYING.sub("#", text.casefold())
