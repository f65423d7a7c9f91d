"""The credentials of the API client, in the form that the watches need."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kubernetes.aio.client.configuration import Configuration


@dataclass(frozen=True)
class Credentials:
    """Address of the API server and current credentials; tokens are read again each time."""

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
    """Read the credentials of a configuration, with a fresh token if it has one."""
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
