"""Parse arguments about facts into what the service accepts: ids, choices, texts, pages."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from kais_cli import errors

if TYPE_CHECKING:
    from collections.abc import Callable

    from kais_cli.session import Session
    from knowledge_client.models import FactPage, ReviewPage

_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_ALIAS = "alias:"
PAGE = 100
"""The maximum number of facts that the service returns at once."""
_MOST_TYPED = 1_000_000  # characters read from a pipe


def fact_id(given: str) -> str:
    """Validate the id or alias of a fact.

    Raises:
        UsageError: It is neither; the service could not say more.
    """
    text = given.strip()
    if _UUID.fullmatch(text):
        return text.lower()
    namespace, colon, value = text.removeprefix(_ALIAS).partition(":")
    if text.startswith(_ALIAS) and namespace and colon and value:
        return text
    raise errors.UsageError(
        f"{given!r} is no id of a fact: it has 36 characters, such as"
        " 01a20271-baae-74f2-a8ca-83ecb715fd90, and `kais knowledge list -o name` prints it;"
        " a name is alias:<namespace>:<value>"
    )


def one_of(given: str | None, known: Sequence[str], *, option: str) -> str | None:
    """Validate a choice.

    Raises:
        UsageError: It is not one of the choices; the message lists them.
    """
    if given is None or given in known:
        return given
    near = difflib.get_close_matches(given.casefold(), known, n=1)
    hint = f"; did you mean {near[0]}?" if near else ""
    raise errors.UsageError(f"{option} {given!r} is none of {', '.join(known)}{hint}")


def text(session: Session, given: str | None) -> str | None:
    """Return a text, or for `-` standard input without its last line break."""
    if given != "-":
        return given
    stdin = session.environment.stdin
    if stdin.isatty():
        session.note("reading from the terminal; press Ctrl-D to finish")
    try:
        return stdin.read(_MOST_TYPED).rstrip("\r\n")
    except UnicodeDecodeError as exc:
        raise errors.UsageError("standard input is not UTF-8 text") from exc


def pages(
    ask: Callable[[str | None, int], FactPage | ReviewPage],
    *,
    cursor: str | None,
    limit: int | None,
) -> Iterator[FactPage | ReviewPage]:
    """Fetch pages until there are no more or there are `limit` facts.

    `ask` takes where the page before ended and how many facts to give. The last page that comes
    has a cursor when there is more than was asked for.
    """
    left = limit
    while True:
        page = ask(cursor, PAGE if left is None else min(left, PAGE))
        yield page
        cursor = page.cursor
        left = None if left is None else left - len(page.facts)
        if cursor is None or (left is not None and left <= 0):
            return
