"""The environment and arguments of a server, read once."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

SERVERS = ("reader", "fixer")
_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The settings of one server.

    Attributes:
        server: which of `SERVERS` runs.
        namespace: the namespace that the tools read and change.
        api_url: address of the API server.
        account: folder with `token` and `ca.crt` of the ServiceAccount.
        key_file: file with the key that callers send in `X-Api-Key`.
        max_memory_mi: maximum of a memory limit that the fixer sets, in MiB.
        port: port to serve on.
    """

    server: str
    namespace: str
    api_url: str
    account: Path
    key_file: Path
    max_memory_mi: int
    port: int


def read(environment: Mapping[str, str], arguments: Sequence[str]) -> Settings:
    """Read environment and arguments; an invalid argument ends the program with its usage."""
    parser = argparse.ArgumentParser(prog="incident-team", description=__doc__)
    parser.add_argument("server", choices=SERVERS)
    parser.add_argument("--port", type=int, default=8080)
    parser.add_argument("--max-memory-mi", type=int, default=512)
    options = parser.parse_args(arguments)
    host = environment.get("KUBERNETES_SERVICE_HOST", "kubernetes.default.svc")
    host = f"[{host}]" if ":" in host else host
    return Settings(
        server=options.server,
        namespace=environment.get("POD_NAMESPACE", "default"),
        api_url=f"https://{host}:{environment.get('KUBERNETES_SERVICE_PORT', '443')}",
        account=Path(environment.get("INCIDENT_ACCOUNT_DIR", _ACCOUNT)),
        key_file=Path(environment.get("INCIDENT_KEY_FILE", "/etc/incident-team/key")),
        max_memory_mi=options.max_memory_mi,
        port=options.port,
    )
