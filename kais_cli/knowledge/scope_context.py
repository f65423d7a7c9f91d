"""The knowledge client and the scopes of commands that work in a namespace."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from kais_cli.knowledge import scope_parsing
from kais_cli.settings import Identity

if TYPE_CHECKING:
    from kais_cli.session import Session
    from knowledge_client import KnowledgeClient
    from knowledge_client.models import ScopeStats

_MAX_SUGGESTION_PAGES = 10  # of a hundred scopes each, which are searched for a misspelt scope


@contextmanager
def client(
    session: Session, *, as_agent: bool = False, timeout_s: float = 10.0
) -> Iterator[KnowledgeClient]:
    """Open a client that acts for the namespace's realm, with `as_agent` as an agent.

    Raises:
        Unreachable: The service does not answer.
        Refused: The service or the cluster rejects the request.
    """
    from kais_cli.knowledge import connection  # noqa: PLC0415 (loads httpx)

    cluster = None if _is_direct(session) else session.cluster
    realm_namespace = namespace(session)
    with connection.connect(
        session.environment,
        cluster,
        namespace=realm_namespace,
        as_agent=as_agent,
        timeout_s=timeout_s,
    ) as opened:
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

    In a cluster, the home of the namespace's account is its realm, and that of administrators and
    people the platform. With a configured service address, the token determines the home.
    """
    chosen = session.chosen_namespace
    is_account = session.environment.settings.knowledge_identity is Identity.NAMESPACE
    return f"realm:{chosen}" if chosen and (_is_direct(session) or not is_account) else None


def home_realm(session: Session) -> str | None:
    """Return the realm that the session writes to by default; None if only the service knows it.

    It is the realm of `--namespace`, or in a cluster that of the namespace's account.
    """
    is_account = session.environment.settings.knowledge_identity is Identity.NAMESPACE
    if not _is_direct(session) and is_account:
        return f"realm:{session.namespace}"
    return default_scope(session)


def import_realm(session: Session) -> str | None:
    """Return the target realm of imported facts; None keeps the scopes of their lines."""
    return session.chosen_namespace if _is_direct(session) else session.namespace


def suggest_scope(
    session: Session, client: KnowledgeClient, scope: str | None, *, has_below: bool = False
) -> str:
    """Return a hint about a scope without results, or an empty string.

    For an invisible scope, the hint suggests the most similar visible one. If the command has the
    option --below, the hint counts the facts below the scope.
    """
    if scope is None:
        return ""
    requested_path = path(session, scope)
    visible_paths = _visible_paths(client)
    if visible_paths is None:
        return ""
    below = scopes_below(client, requested_path) if has_below else []
    count = sum(stats.facts for stats in below)
    if count:
        return (
            f"; {count} {'fact lies' if count == 1 else 'facts lie'} below {requested_path}:"
            " add --below to see them"
        )
    if requested_path in visible_paths:
        return ""
    suggestion = scope_parsing.closest_path(requested_path, visible_paths)
    return f"; you see no scope {requested_path}" + (
        f"; did you mean {suggestion}?" if suggestion else ""
    )


def scopes_below(client: KnowledgeClient, path: str) -> list[ScopeStats]:
    """Return the visible scopes below a path that have live facts."""
    scopes, cursor = [], None
    for _ in range(_MAX_SUGGESTION_PAGES):
        page = client.list_scopes(cursor=cursor, limit=100)
        scopes += [s.stats for s in page.scopes if _is_below(s.path, path) and s.stats.facts]
        cursor = page.cursor
        if cursor is None:
            break
    return scopes


def _is_below(path: str, ancestor: str) -> bool:
    return path != ancestor and (ancestor == "platform" or path.startswith(f"{ancestor}/"))


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
