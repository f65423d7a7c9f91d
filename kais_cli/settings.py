"""The settings from environment variables; only this module of the package reads os.environ."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Settings:
    """The variables that configure commands; KUBECONFIG is the default of an option instead."""

    knowledge_url: str | None = None
    release: str | None = None
    has_colour: bool = True


def from_environment(variables: Mapping[str, str] | None = None) -> Settings:
    """Read the settings; NO_COLOR with any value, and TERM=dumb, disable colour."""
    values = os.environ if variables is None else variables
    return Settings(
        knowledge_url=values.get("KAIS_KNOWLEDGE_URL") or None,
        release=values.get("KAIS_RELEASE") or None,
        has_colour=not values.get("NO_COLOR") and values.get("TERM") != "dumb",
    )
