"""Parse command-line arguments about facts: ids, choices, texts, pages."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from kais_cli import errors
from kais_cli.facts import alias_notation

if TYPE_CHECKING:
    from collections.abc import Callable

    from kais_cli.session import Session
    from knowledge_client.models import FactPage, ReviewPage

_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_SHORT_ID = re.compile(r"[0-9a-f]{6}[0-9a-f-]{0,29}", re.IGNORECASE)
PAGE_SIZE = 100
"""The maximum number of facts that the service returns at once."""
FURTHER_LISTS = "further-lists"
"""The cursor of a page after which further lists follow; only the client uses it."""
_MAX_STDIN_CHARACTERS = 1_000_000  # characters read from a pipe


def fact_id(argument: str) -> str:
    """Return the id or alias of a fact as the service takes it, or the beginning of an id.

    Raises:
        UsageError: The argument is neither; the service could not explain more.
    """
    text = argument.strip()
    if _UUID.fullmatch(text) or is_short_id(text):
        return text.lower()
    alias = alias_notation.parse(text)
    if alias is not None:
        return alias_notation.to_reference(alias)
    raise errors.UsageError(
        f"{argument!r} is not a fact ID: it has 36 characters, such as"
        " 01a20271-baae-74f2-a8ca-83ecb715fd90, or the first 6 or more of them, and"
        " `kais knowledge list -o name` prints it; a name is alias:<namespace>:<value>"
    )


def is_short_id(argument: str) -> bool:
    """Return whether an argument may be the beginning of an id."""
    return _SHORT_ID.fullmatch(argument) is not None


def parse_choice(value: str | None, choices: Sequence[str], *, option: str) -> str | None:
    """Validate a choice.

    Raises:
        UsageError: It is not one of the choices; the message lists them.
    """
    if value is None or value in choices:
        return value
    suggestions = difflib.get_close_matches(value.casefold(), choices, n=1)
    hint = f"; did you mean {suggestions[0]}?" if suggestions else ""
    raise errors.UsageError(f"{option} {value!r} is not one of {', '.join(choices)}{hint}")


def read_text(session: Session, argument: str | None) -> str | None:
    """Return a text; for `-`, standard input without its last line breaks.

    Raises:
        UsageError: Standard input is not UTF-8, or too long.
    """
    if argument != "-":
        return argument
    stdin = session.environment.stdin
    if stdin.isatty():
        session.note("reading from the terminal; press Ctrl-D to finish")
    try:
        text = stdin.read(_MAX_STDIN_CHARACTERS + 1)
        text.encode()  # where the locale is C, Python reads other bytes as halves of characters
    except UnicodeError as exc:
        raise errors.UsageError("standard input is not UTF-8 text") from exc
    if len(text) > _MAX_STDIN_CHARACTERS:
        raise errors.UsageError(
            f"standard input has more than {_MAX_STDIN_CHARACTERS:,} characters; send less at once"
        )
    return text.rstrip("\r\n")


def read_json(session: Session, argument: str, *, option: str) -> Any:
    """Return the value of an argument that is JSON; for `-`, of standard input.

    Raises:
        UsageError: It is not JSON.
    """
    try:
        return json.loads(read_text(session, argument) or "")
    except ValueError as exc:
        raise errors.UsageError(f"{option} is not JSON: {exc}") from exc


def fetch_pages(
    fetch: Callable[[str | None, int], FactPage | ReviewPage],
    *,
    cursor: str | None,
    limit: int | None,
) -> Iterator[FactPage | ReviewPage]:
    """Fetch pages until there are no more, or until they contain `limit` facts.

    `fetch` is called with the cursor of the previous page and the number of facts to return. The
    last page has a cursor if more facts exist.
    """
    remaining = limit
    while True:
        page = fetch(cursor, PAGE_SIZE if remaining is None else min(remaining, PAGE_SIZE))
        yield page
        cursor = page.cursor
        remaining = None if remaining is None else remaining - len(page.facts)
        if cursor is None or (remaining is not None and remaining <= 0):
            return


def fetch_pages_of(
    fetches: Sequence[Callable[[str | None, int], FactPage]],
    *,
    cursor: str | None,
    limit: int | None,
) -> Iterator[FactPage | ReviewPage]:
    """Fetch the pages of several lists, one after the other, as `fetch_pages` does for one.

    If facts of further lists are left, the last page has the cursor `FURTHER_LISTS`.
    """
    if len(fetches) == 1:
        yield from fetch_pages(fetches[0], cursor=cursor, limit=limit)
        return
    remaining = limit
    for fetch in fetches:
        for page in fetch_pages(fetch, cursor=None, limit=remaining):
            remaining = None if remaining is None else remaining - len(page.facts)
            is_cut = remaining is not None and remaining <= 0
            yield page.model_copy(update={"cursor": FURTHER_LISTS if is_cut else None})
            if is_cut:
                return
