"""Find the fact that the beginning of an id means."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kais_cli import argument_parsing, errors
from kais_cli.views import text_width
from knowledge_client import errors as knowledge_errors

if TYPE_CHECKING:
    from knowledge_client import KnowledgeClient
    from knowledge_client.models import Fact, FactPage

_WIDTH = 60  # columns of a text in the message
_LISTED = 10  # facts of an ambiguous beginning that the message shows
_PAGE = 500
_PAGES_SEARCHED = 20  # of an older service


def resolve(client: KnowledgeClient, argument: str) -> str:
    """Return the id of the only visible fact with this prefix; return a full id or alias as it is.

    Raises:
        UsageError: No id has this prefix, or several have; the message lists them with their texts.
    """
    if not argument_parsing.is_short_id(argument):
        return argument
    try:
        page = client.list_facts(id_prefix=argument, limit=_LISTED)
    except knowledge_errors.InvalidRequest as exc:
        if not _lacks_filter(exc):
            raise
        page = _search_pages(client, argument)
    if not page.facts:
        raise errors.UsageError(f"no fact that you can see has an ID that begins with {argument}")
    if len(page.facts) == 1:
        return page.facts[0].id
    listed = "".join(f"\n  {fact.id}  {_excerpt(fact.content)}" for fact in page.facts)
    ellipsis = "\n  …" if page.cursor else ""
    raise errors.UsageError(
        f"several IDs begin with {argument}; write more of it:{listed}{ellipsis}"
    )


def _lacks_filter(exc: knowledge_errors.InvalidRequest) -> bool:
    """Return whether the service is too old to filter by the prefix of an id."""
    violations = exc.problem.violations if exc.problem else ()
    return any("id_prefix" in violation.path for violation in violations)


def _search_pages(client: KnowledgeClient, prefix: str) -> FactPage:
    """Search the pages of an older service for a prefix; pages are ordered by id, newest first.

    Raises:
        UsageError: The fact is not among the newest ones.
    """
    matches: list[Fact] = []
    cursor: str | None = None
    for _ in range(_PAGES_SEARCHED):
        page = client.list_facts(limit=_PAGE, cursor=cursor)
        matches += [fact for fact in page.facts if fact.id.startswith(prefix)]
        cursor = page.cursor
        is_past_prefix = bool(page.facts) and page.facts[-1].id < prefix
        if cursor is None or is_past_prefix or len(matches) > _LISTED:
            next_cursor = "more" if len(matches) > _LISTED else None
            return page.model_copy(
                update={"facts": tuple(matches[:_LISTED]), "cursor": next_cursor}
            )
    raise errors.UsageError(
        f"the knowledge service is older than this `kais` and cannot find IDs that begin with"
        f" {prefix}; none of the newest {_PAGES_SEARCHED * _PAGE} facts has one. Write the whole ID"
    )


def _excerpt(content: str) -> str:
    return text_width.truncate(" ".join(content.split()), _WIDTH)
