"""What every body on the wire has in common.

Bodies are written in snake_case and read in both spellings, because the reference implementation's
clients send camelCase and its server snake_case. One base class does it for all models, so client
and service cannot disagree.
"""

from __future__ import annotations

import re
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, model_validator

_HUMP = re.compile(r"(?<=[a-z0-9])([A-Z])")


def snake(name: str) -> str:
    """Turn `missionResult` into `mission_result`; leave anything else as it is."""
    return _HUMP.sub(lambda match: "_" + match.group(1).lower(), name)


class Wire(BaseModel):
    """A body on the wire: immutable, both spellings read, unknown keys ignored for newer peers."""

    model_config = ConfigDict(frozen=True, extra="ignore", populate_by_name=True)

    @model_validator(mode="before")
    @classmethod
    def _read_both_spellings(cls, value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        known = set(cls.model_fields) | {f.alias for f in cls.model_fields.values() if f.alias}
        return {
            key if key in known or not isinstance(key, str) else snake(key): item
            for key, item in value.items()
        }


class WireScope(Wire):
    """A scope in the reference's spelling; missing ids come from the caller's identity."""

    level: Literal["platform", "realm", "formation", "cell"]
    realm_id: str | None = None
    formation_id: str | None = None
    cell_id: str | None = None
