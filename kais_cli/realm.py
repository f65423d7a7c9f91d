"""The knowledge service as the commands of a namespace speak to it; scopes as people write them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from kais import scopes
from kais_cli import errors

if TYPE_CHECKING:
    from kais_cli.session import Session
    from knowledge_client import KnowledgeClient


@contextmanager
def client(session: Session) -> Iterator[KnowledgeClient]:
    """Open a client that speaks for the namespace's realm.

    Raises:
        Unreachable: the service does not answer.
        Refused: the service or the cluster says no.
    """
    from kais_cli import knowledge_access  # noqa: PLC0415 (loads httpx)

    cluster = None if _is_direct(session) else session.cluster
    space = namespace(session)
    with knowledge_access.connect(session.environment, cluster, namespace=space) as opened:
        yield opened


def namespace(session: Session) -> str:
    """Name the realm; where the service's address is told, no cluster is asked for it."""
    return session.chosen_namespace or "default" if _is_direct(session) else session.namespace


def path(session: Session, scope: str) -> str:
    """Write a scope as a path; a bare name is a formation of the namespace.

    Raises:
        UsageError: it is no scope.
    """
    is_path = ":" in scope or scope == "platform"
    try:
        space = namespace(session)
        found = scopes.Scope.parse(scope) if is_path else scopes.Scope(space, scope)
    except scopes.InvalidScope as exc:
        raise errors.UsageError(f"--scope {exc}") from exc
    return str(found)


def _is_direct(session: Session) -> bool:
    return session.environment.settings.knowledge_url is not None
