"""Startup checks: a free address, and a way to authenticate callers.

They run before the database is created or migrated, which a process that cannot serve must not do.
"""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

from knowledge_service.authentication import people
from knowledge_service.errors import StartupError

if TYPE_CHECKING:
    from knowledge_service.settings import Settings


def check_settings(settings: Settings) -> None:
    """Check that the service can serve with these settings.

    Raises:
        StartupError: the address is taken, or callers cannot be authenticated.
    """
    _check_address(settings.host, settings.port, "--host and --port (KAIS_HOST, KAIS_PORT)")
    if settings.metrics_port is not None:
        option_names = "KAIS_METRICS_HOST and KAIS_METRICS_PORT"
        _check_address(settings.metrics_host, settings.metrics_port, option_names)
    if settings.auth == "kubernetes" and not settings.kube_token_file.exists():
        raise StartupError(
            f"no ServiceAccount token at {settings.kube_token_file} (KAIS_KUBE_TOKEN_FILE):"
            " callers cannot be authenticated."
            " Outside a cluster use --auth token, or --auth none on localhost"
        )
    if settings.auth == "kubernetes":
        try:
            people.parse_rules(settings.people)
        except people.InvalidRules as exc:
            raise StartupError(
                f"KAIS_PEOPLE is not a list of grants to users and groups: {exc}"
            ) from exc


def _check_address(host: str, port: int, option_names: str) -> None:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        with socket.socket(family) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(
                (host, port)
            )  # without listening, so that no client takes this for the service
    except OSError as exc:
        reason = exc.strerror or str(exc)
        raise StartupError(
            f"cannot listen on {host}:{port} ({reason}); stop what listens there,"
            f" or choose another with {option_names}"
        ) from exc
