"""The client's settings: the only reader of the environment in this package."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from knowledge_client import errors


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The variables of a cell's pod; an empty one counts as not set."""

    url: str | None = None
    token_file: str | None = None
    scope: str | None = None
    run_id: str | None = None
    attempt: int | None = None
    mission: str | None = None
    namespace: str | None = None

    @property
    def mission_id(self) -> str | None:
        """The mission as facts refer to it, `namespace/name`; None outside of a mission."""
        if self.mission is None or self.namespace is None:
            return self.mission
        return f"{self.namespace}/{self.mission}"


def from_environment(environment: Mapping[str, str] | None = None) -> Settings:
    """Read the settings, by default from the environment of the process.

    Raises:
        InvalidRequest: KAIS_ATTEMPT is not a positive integer.
    """
    values = os.environ if environment is None else environment
    return Settings(
        url=values.get("KNOWLEDGE_SERVICE_URL") or None,
        token_file=values.get("KNOWLEDGE_TOKEN_FILE") or None,
        scope=values.get("KNOWLEDGE_SCOPE") or None,
        run_id=values.get("KAIS_RUN_ID") or None,
        attempt=_attempt(values.get("KAIS_ATTEMPT") or None),
        mission=values.get("KAIS_MISSION") or None,
        namespace=values.get("CELL_NAMESPACE") or None,
    )


def _attempt(value: str | None) -> int | None:
    if value is None:
        return None
    if not value.isdecimal() or int(value) < 1:
        raise errors.InvalidRequest(
            f"KAIS_ATTEMPT is {value!r}; it must be an integer of 1 or more"
        )
    return int(value)
