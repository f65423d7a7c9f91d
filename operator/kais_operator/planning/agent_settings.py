"""What the installation gives every cell with a mind: the image, endpoints and prices."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class AgentSettings:
    """Settings of the installation for the agent runtime.

    Attributes:
        image: the image of the agent runtime.
        model_urls: endpoints of providers, by the provider's name.
        prices: JSON of prices that override those of the runtime; empty for none.
        telemetry: variables of OpenTelemetry for the pods of minds.
    """

    image: str = ""
    model_urls: Mapping[str, str] = field(default_factory=dict)
    prices: str = ""
    telemetry: Mapping[str, str] = field(default_factory=dict)


NO_AGENTS = AgentSettings()
