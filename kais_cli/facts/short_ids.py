"""Find the fact that the beginning of an id means."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kais_cli import argument_parsing, errors
from kais_cli.views import text_width

if TYPE_CHECKING:
    from knowledge_client import KnowledgeClient

_WIDTH = 60  # columns of a text in the message
_LISTED = 10  # facts of an ambiguous beginning that the message shows


def resolve(client: KnowledgeClient, argument: str) -> str:
    """Return the id of the one visible fact whose id begins so; a whole id or an alias unchanged.

    Raises:
        UsageError: No id begins so, or several do; the message lists them with their texts.
    """
    if not argument_parsing.is_short_id(argument):
        return argument
    page = client.list_facts(id_prefix=argument, limit=_LISTED)
    if not page.facts:
        raise errors.UsageError(f"no fact that you can see has an ID that begins with {argument}")
    if len(page.facts) == 1:
        return page.facts[0].id
    listed = "".join(f"\n  {fact.id}  {_excerpt(fact.content)}" for fact in page.facts)
    more = "\n  …" if page.cursor else ""
    raise errors.UsageError(f"several IDs begin with {argument}; write more of it:{listed}{more}")


def _excerpt(content: str) -> str:
    return text_width.truncate(" ".join(content.split()), _WIDTH)
