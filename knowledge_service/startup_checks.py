"""What must hold before a database is opened: an address to listen on, and a way to know callers.

A file that is made or migrated for a process which cannot serve would be of no help to anybody.
"""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

from knowledge_service.errors import StartupError

if TYPE_CHECKING:
    from knowledge_service.settings import Settings


def check(chosen: Settings) -> None:
    """Let pass settings with which the service can serve.

    Raises:
        StartupError: the address cannot be had, or nobody could ever be known.
    """
    _check_address(chosen.host, chosen.port, "--host and --port (KAIS_HOST, KAIS_PORT)")
    if chosen.metrics_port is not None:
        settings = "KAIS_METRICS_HOST and KAIS_METRICS_PORT"
        _check_address(chosen.metrics_host, chosen.metrics_port, settings)
    if chosen.auth == "kubernetes" and not chosen.kube_token_file.exists():
        raise StartupError(
            f"no ServiceAccount token at {chosen.kube_token_file} (KAIS_KUBE_TOKEN_FILE):"
            " callers cannot be authenticated."
            " Outside a cluster use --auth token, or --auth none on localhost"
        )


def _check_address(host: str, port: int, settings: str) -> None:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        with socket.socket(family) as tried:
            tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            tried.bind((host, port))  # and no listening: nobody shall take this for the service
    except OSError as exc:
        why = exc.strerror or str(exc)
        raise StartupError(
            f"cannot listen on {host}:{port} ({why}); stop what listens there,"
            f" or choose another with {settings}"
        ) from exc
