"""The names of the objects that the chart creates for one release.

Labels serve for listing only: any user who may create a pod can label it, so no label decides
which pod gets a token.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from kais_cli import errors
from kais_cli.settings import Settings

OPERATOR = "app.kubernetes.io/name=kais,app.kubernetes.io/component=operator"
KNOWLEDGE = "app.kubernetes.io/name=kais,app.kubernetes.io/component=knowledge"
INSTANCE = "app.kubernetes.io/instance"
_NAME = "[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"


@dataclass(frozen=True)
class Release:
    """One installation of the chart `kais`; the chart derives all names from the release's."""

    namespace: str = "kais-system"
    name: str = "kais"

    @property
    def operator(self) -> str:
        """Name of the operator's Deployment."""
        return f"{self.name}-operator"

    @property
    def knowledge(self) -> str:
        """Name of the knowledge service's StatefulSet, Service and ServiceAccount."""
        return f"{self.name}-knowledge"

    @property
    def knowledge_pod(self) -> str:
        """Name of the one pod of that StatefulSet."""
        return f"{self.knowledge}-0"

    @property
    def people(self) -> str:
        """Name of the Role by which people reach the service."""
        return f"{self.name}-people"

    @property
    def knowledge_admin(self) -> str:
        """Name of the ServiceAccount of administrators of the service, and of the Role for it."""
        return f"{self.knowledge}-admin"

    def __str__(self) -> str:
        """Write it as KAIS_RELEASE takes it."""
        return f"{self.namespace}/{self.name}"


def release(settings: Settings) -> Release:
    """Return the release that the settings select.

    Raises:
        UsageError: KAIS_RELEASE is not NAMESPACE/NAME.
    """
    text = settings.release
    if text is None:
        return Release()
    if not re.fullmatch(f"{_NAME}/{_NAME}", text):
        raise errors.UsageError(
            f'KAIS_RELEASE is "{text}"; it takes NAMESPACE/NAME of the Helm release,'
            f" such as {Release()}"
        )
    return Release(*text.split("/"))
