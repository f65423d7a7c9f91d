"""`kais knowledge alias add|move|free`: the aliases of one fact."""

from __future__ import annotations

from typing import Annotated

import typer

from kais_cli import errors
from kais_cli.commands import knowledge
from kais_cli.commands.knowledge_facts import FactId, Reason, require_reason, write_result
from kais_cli.commands.options import Output
from kais_cli.exit_status import ExitStatus
from kais_cli.facts import alias_notation, short_ids
from kais_cli.facts.alias_notation import WrittenAlias
from kais_cli.knowledge import scope_context
from kais_cli.session import Session, command, group
from kais_cli.views.output import Format

app = group("alias", "Add, move and free aliases of facts.")
knowledge.app.add_typer(app)
AliasArgument = Annotated[str, typer.Argument(metavar="ALIAS", help=alias_notation.HELP)]


@command(app, "add")
def add(
    session: Session,
    fact: FactId,
    alias: AliasArgument,
    reason: Reason,
    output_: Output = Format.TABLE,
) -> ExitStatus:
    """Add an alias to a fact.

    If another fact has the alias, nothing changes: see `move`.
    """
    return _set(session, fact, alias, reason, output_, move=False)


@command(app, "move")
def move(
    session: Session,
    fact: FactId,
    alias: AliasArgument,
    reason: Reason,
    output_: Output = Format.TABLE,
) -> ExitStatus:
    """Move an alias to a fact from the one that has it.

    `kais knowledge undo` of either fact moves it back.
    """
    return _set(session, fact, alias, reason, output_, move=True)


@command(app, "free")
def free(
    session: Session,
    fact: FactId,
    alias: AliasArgument,
    reason: Reason,
    output_: Output = Format.TABLE,
) -> ExitStatus:
    """Free an alias of a fact, so that another fact can take it."""
    from knowledge_client import models  # noqa: PLC0415 (loads httpx)

    parsed = _parse(alias)
    body = models.AliasRemovalIn(
        namespace=parsed.namespace, value=parsed.value, reason=require_reason(reason)
    )
    with scope_context.client(session) as client:
        fact_aliases = client.remove_alias(short_ids.resolve(client, fact), body)
    return write_result(
        session, fact_aliases, output_, page=f"{fact_aliases.fact_id}: {alias} is free\n"
    )


def _set(
    session: Session, fact: str, alias: str, reason: str, form: Format, *, move: bool
) -> ExitStatus:
    from knowledge_client import models  # noqa: PLC0415 (loads httpx)

    parsed = _parse(alias)
    body = models.AliasSetIn(
        namespace=parsed.namespace, value=parsed.value, move=move, reason=require_reason(reason)
    )
    with scope_context.client(session) as client:
        fact_aliases = client.set_alias(short_ids.resolve(client, fact), body)
    return write_result(session, fact_aliases, form, page=f"{fact_aliases.fact_id}: has {alias}\n")


def _parse(argument: str) -> WrittenAlias:
    """Parse an alias as it is written in place of an id.

    Raises:
        UsageError: It has another form.
    """
    alias = alias_notation.parse(argument)
    if alias is None:
        raise errors.UsageError(
            f"{argument!r} is no alias; write alias:<namespace>:<value>, for example"
            " alias:ko:KO-shop-001"
        )
    return alias
