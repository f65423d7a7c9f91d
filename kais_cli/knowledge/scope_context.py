"""The knowledge client and the scopes of commands that work in a namespace."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from kais_cli.knowledge import scope_parsing

if TYPE_CHECKING:
    from kais_cli.session import Session
    from knowledge_client import KnowledgeClient

_MAX_SUGGESTION_PAGES = 10  # of a hundred scopes each, which are searched for a misspelt scope


@contextmanager
def client(session: Session) -> Iterator[KnowledgeClient]:
    """Open a client that acts for the namespace's realm.

    Raises:
        Unreachable: The service does not answer.
        Refused: The service or the cluster rejects the request.
    """
    from kais_cli.knowledge import connection  # noqa: PLC0415 (loads httpx)

    cluster = None if _is_direct(session) else session.cluster
    realm_namespace = namespace(session)
    with connection.connect(session.environment, cluster, namespace=realm_namespace) as opened:
        yield opened


def namespace(session: Session) -> str:
    """Return the namespace of the realm; a configured service address needs no cluster for it."""
    return session.chosen_namespace or "default" if _is_direct(session) else session.namespace


def path(session: Session, scope: str) -> str:
    """Convert a scope to a path; a bare name is a formation of the namespace.

    Raises:
        UsageError: The text is not a scope.
    """
    is_path = ":" in scope or scope == "platform"
    return scope_parsing.parse_scope(scope, namespace="default" if is_path else namespace(session))


def default_scope(session: Session) -> str | None:
    """Return the realm of `--namespace` if the caller's home is another scope.

    In a cluster, the home of the namespace's account is its realm. With a configured service
    address, the token determines the home.
    """
    chosen = session.chosen_namespace
    return f"realm:{chosen}" if chosen and _is_direct(session) else None


def import_realm(session: Session) -> str | None:
    """Return the target realm of imported facts; None keeps the scopes of their lines."""
    return session.chosen_namespace if _is_direct(session) else session.namespace


def suggest_scope(session: Session, client: KnowledgeClient, scope: str | None) -> str:
    """Return a hint that a scope without results is not visible, with the most similar one.

    Empty if the scope is visible, or if there is no scope.
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
    """Return all visible scopes; None if there are too many or the service does not list them."""
    from knowledge_client.errors import KnowledgeError  # noqa: PLC0415 (loads httpx)

    paths, cursor = set[str](), None
    for _ in range(_MAX_SUGGESTION_PAGES):
        try:
            page = client.list_scopes(cursor=cursor, limit=100)
        except KnowledgeError:
            return None  # only a hint is missing; the answer itself was printed
        paths |= {scope.path for scope in page.scopes}
        cursor = page.cursor
        if cursor is None:
            return paths
    return None


def _is_direct(session: Session) -> bool:
    return session.environment.settings.knowledge_url is not None
