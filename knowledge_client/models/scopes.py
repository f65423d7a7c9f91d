"""The configuration of scopes."""

from __future__ import annotations

import operator
from typing import Annotated, Literal

from pydantic import Field

from knowledge_client.base_model import WireModel
from knowledge_client.models.stats import ScopeStats


class Retention(WireModel):
    """Bounds of a scope's live facts; absent means unbounded."""

    max_facts: int | None = Field(default=None, ge=1)
    ttl_days: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    half_life_days: float | None = Field(default=None, gt=0, allow_inf_nan=False)


class Promotion(WireModel):
    """When a fact of this scope is copied one level up."""

    policy: Literal["Manual", "Automatic"] = "Manual"
    min_missions: int = Field(default=3, ge=1)
    min_confidence: float = Field(default=0.7, ge=0, le=1)


class Injection(WireModel):
    """Which facts a cell gets when a mission starts."""

    enabled: bool = True
    max_facts: int = Field(default=20, ge=0, le=100)
    max_tokens: int = Field(default=1500, ge=0, le=100_000)
    min_confidence: float = Field(default=0.5, ge=0, le=1)


class ExtractionConfig(WireModel):
    """Whether and how facts are extracted in this scope."""

    enabled: bool = True
    max_facts: int = Field(default=7, ge=0, le=7)
    model: str | None = None


Synonym = Annotated[str, Field(min_length=2, max_length=64, pattern=r"^[^\s./:@#,-]+$")]
"""One word or identifier; recall compares its stem."""
SynonymGroup = Annotated[tuple[Synonym, ...], Field(min_length=2, max_length=16)]
"""Words of which each finds the others."""


class ScopeConfig(WireModel):
    """The configuration of one scope; the defaults apply to undeclared scopes."""

    read_only: bool = False
    inherit: bool = True
    secrets: Literal["Mask", "Refuse"] = "Mask"
    many: tuple[str, ...] = Field(
        default=(),
        max_length=256,
        description="predicates that a subject may have several live facts for",
    )
    synonyms: tuple[SynonymGroup, ...] = Field(
        default=(),
        max_length=100,
        exclude_if=operator.not_,
        description="words that find each other in recalls of this scope and of those below it",
    )
    retention: Retention = Retention()
    promotion: Promotion = Promotion()
    injection: Injection = Injection()
    extraction: ExtractionConfig = ExtractionConfig()


class ScopeOut(WireModel):
    """A scope with its configuration and its statistics."""

    path: str
    declared: bool
    config: ScopeConfig
    stats: ScopeStats


class ScopePage(WireModel):
    """A page of the scopes that the caller may read, by path. `cursor` is absent on the last."""

    scopes: tuple[ScopeOut, ...]
    cursor: str | None = None


class AdoptionResult(WireModel):
    """The scopes of an earlier realm of the same name that were merged into the current one."""

    path: str
    scopes: tuple[str, ...]
    facts: int
