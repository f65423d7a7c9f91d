"""The knowledge service as the commands of a namespace speak to it; scopes as people write them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from kais_cli.knowledge import scope_parsing

if TYPE_CHECKING:
    from kais_cli.session import Session
    from knowledge_client import KnowledgeClient

_MAX_SUGGESTION_PAGES = 10  # of a hundred scopes, among which a misspelt one is looked for


@contextmanager
def client(session: Session) -> Iterator[KnowledgeClient]:
    """Open a client that speaks for the namespace's realm.

    Raises:
        Unreachable: the service does not answer.
        Refused: the service or the cluster says no.
    """
    from kais_cli.knowledge import connection  # noqa: PLC0415 (loads httpx)

    cluster = None if _is_direct(session) else session.cluster
    realm_namespace = namespace(session)
    with connection.connect(session.environment, cluster, namespace=realm_namespace) as opened:
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
    return scope_parsing.parse_scope(scope, namespace="default" if is_path else namespace(session))


def default_scope(session: Session) -> str | None:
    """Return the realm that `--namespace` names where the caller is at home elsewhere.

    In a cluster the account of the namespace is at home in its realm. Where the service's address
    is told, the token says where its owner is at home.
    """
    chosen = session.chosen_namespace
    return f"realm:{chosen}" if chosen and _is_direct(session) else None


def import_realm(session: Session) -> str | None:
    """Name the realm that facts of a file go to; None leaves them in the scopes of their lines."""
    return session.chosen_namespace if _is_direct(session) else session.namespace


def suggest_scope(session: Session, client: KnowledgeClient, scope: str | None) -> str:
    """Say that a scope which gave nothing is none that the caller sees, and which one is like it.

    Empty where there is such a scope, and without a scope.
    """
    if scope is None:
        return ""
    requested_path = path(session, scope)
    visible_paths = _visible_paths(client)
    if visible_paths is None or requested_path in visible_paths:
        return ""
    suggestion = scope_parsing.closest_path(requested_path, visible_paths)
    return f"; you see no scope {requested_path}" + (
        f"; did you mean {suggestion}?" if suggestion else ""
    )


def _visible_paths(client: KnowledgeClient) -> set[str] | None:
    """Name all scopes that may be seen; None when there are very many or they cannot be told."""
    from knowledge_client.errors import KnowledgeError  # noqa: PLC0415 (loads httpx)

    paths, cursor = set[str](), None
    for _ in range(_MAX_SUGGESTION_PAGES):
        try:
            page = client.list_scopes(cursor=cursor, limit=100)
        except KnowledgeError:
            return None  # it was asked for advice only; the answer itself has been given
        paths |= {scope.path for scope in page.scopes}
        cursor = page.cursor
        if cursor is None:
            return paths
    return None


def _is_direct(session: Session) -> bool:
    return session.environment.settings.knowledge_url is not None
