"""The settings from environment variables; only this module of the package reads os.environ."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class Identity(StrEnum):
    """The identity of a command at the knowledge service."""

    NAMESPACE = "namespace"
    """The ServiceAccount kais-user of the namespace."""
    ADMIN = "admin"
    """The ServiceAccount of administrators of the release."""
    ME = "me"
    """The user of the kubeconfig, by the token of its login."""


@dataclass(frozen=True)
class Settings:
    """The variables that configure commands; KUBECONFIG is the default of an option instead."""

    knowledge_url: str | None = None
    release: str | None = None
    knowledge_identity: Identity = Identity.NAMESPACE
    has_colour: bool = True


def from_environment(variables: Mapping[str, str] | None = None) -> Settings:
    """Read the settings; NO_COLOR with any value, and TERM=dumb, disable colour."""
    values = os.environ if variables is None else variables
    return Settings(
        knowledge_url=values.get("KAIS_KNOWLEDGE_URL") or None,
        release=values.get("KAIS_RELEASE") or None,
        has_colour=not values.get("NO_COLOR") and values.get("TERM") != "dumb",
    )


def with_variables(additional: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a child process: that of this process, and `additional`."""
    return {**os.environ, **additional}


def api_server_of_pod(variables: Mapping[str, str] | None = None) -> str:
    """Return the address of the API server that the kubelet gives to every pod."""
    values = os.environ if variables is None else variables
    host = values.get("KUBERNETES_SERVICE_HOST", "kubernetes.default.svc")
    port = values.get("KUBERNETES_SERVICE_PORT", "443")
    return f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"


def kubeconfig() -> str | None:
    """Return the files that KUBECONFIG names; completion reads no options of typer."""
    return os.environ.get("KUBECONFIG") or None
