"""One login for both cluster clients: what the watches need of the connection."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kubernetes.aio.client.configuration import Configuration


@dataclass(frozen=True)
class Credentials:
    """How to reach the API server and as whom, at this moment; tokens are read again each time."""

    server: str
    ca_path: str | None
    is_insecure: bool
    certificate_path: str | None
    private_key_path: str | None
    scheme: str | None
    token: str | None
    username: str | None
    password: str | None
    proxy_url: str | None


async def read_credentials(configuration: Configuration) -> Credentials:
    """Read the login out of a configuration, with a fresh token when it has one."""
    settings: Any = configuration
    header = await settings.get_api_key_with_prefix("BearerToken") or ""
    scheme, _, token = header.rpartition(" ")
    return Credentials(
        server=settings.host,
        ca_path=settings.ssl_ca_cert or None,
        is_insecure=not settings.verify_ssl,
        certificate_path=settings.cert_file or None,
        private_key_path=settings.key_file or None,
        scheme=(scheme or "Bearer").capitalize() if token else None,
        token=token or None,
        username=settings.username or None,
        password=settings.password or None,
        proxy_url=settings.proxy or None,
    )
