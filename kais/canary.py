"""Canaries of Blueprints: which uses draw the new revision, and what their runs show. Pure.

The state of a canary is JSON in one annotation of the Blueprint, so that it outlives the operator
and the status. A use draws its revision once, by its uid; runs that were not drawn do not count.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Final

from pydantic import AwareDatetime, Field, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass

from kais import labels, names, run_comparison
from kais.resources.blueprint import Rollout
from kais.run_comparison import Group

_ERROR: Final = 0.05
"""Probability that any look at equal revisions shows a difference.

The k-th look may use 0.05·2^-k.
"""
_MAX_NUMBER: Final = 10**9 - 1
_Number = Annotated[int, Field(ge=1, le=_MAX_NUMBER)]
_Count = Annotated[int, Field(ge=0, le=_MAX_NUMBER)]


class Verdict(StrEnum):
    """How a canary ended."""

    PROMOTED = "Promoted"
    REGRESSED = "Regressed"
    UNDECIDED = "Undecided"
    STOPPED = "Stopped"


@dataclass(frozen=True)
class Runs:
    """The runs of one revision that count, and how many of them succeeded."""

    succeeded: _Count = 0
    counted: _Count = 0

    @property
    def group(self) -> Group:
        """The runs as a group of a comparison."""
        return Group(self.succeeded, self.counted)

    def __str__(self) -> str:
        """Return the counts as a part of a sentence."""
        return f"{self.succeeded} of {self.counted} succeeded"


@dataclass(frozen=True, kw_only=True)
class Canary:
    """A canary, running or ended.

    Attributes:
        revision: the new revision.
        over: the revision that it is compared with, which the other uses get.
        since: when both began to serve.
        looks: how often the canary was judged; each look is taken once.
        verdict: how it ended; None while it runs.
        by_hand: whether a person decided.
        new: the runs of the new revision at the verdict.
        old: the runs of the other revision at the verdict.
    """

    revision: _Number
    over: _Number
    since: AwareDatetime
    looks: Annotated[int, Field(ge=0, le=64)] = 0
    verdict: Verdict | None = None
    by_hand: bool = False
    new: Runs | None = None
    old: Runs | None = None

    @property
    def served(self) -> int:
        """The revision of the uses that do not draw the canary."""
        return self.revision if self.verdict is Verdict.PROMOTED else self.over


_CANARY: Final = TypeAdapter(Canary)


def parse(annotations: Mapping[str, str]) -> Canary | None:
    """Read the canary of a Blueprint; None without one, or if the annotation was edited."""
    try:
        return _CANARY.validate_json(annotations.get(labels.CANARY, ""))
    except ValidationError:
        return None


def dump(canary: Canary) -> str:
    """Return the value of the annotation."""
    return _CANARY.dump_json(canary, exclude_none=True).decode()


def begin(revision: int, *, over: int, now: datetime) -> Canary:
    """Return a canary that starts now."""
    return Canary(revision=revision, over=over, since=now.replace(microsecond=0))


def is_drawn(uid: str, *, revision: int, percent: int) -> bool:
    """Whether an instance draws the canary; independent of whether it draws the holdout."""
    return int(names.short_hash(f"canary/{uid}/{revision}"), 16) % 100 < percent


def look_sizes(rollout: Rollout) -> tuple[int, ...]:
    """Return the numbers of counted runs after which the canary is judged."""
    sizes, size = [], rollout.min_runs
    while size < rollout.max_runs:
        sizes.append(size)
        size *= 2
    return (*sizes, rollout.max_runs)


def judge(canary: Canary, rollout: Rollout, *, new: Runs, old: Runs) -> Canary:
    """Judge the canary if a look is due; return it with the verdict, if there is one.

    A missed look is not taken later, and its share of the error is not used by the next one.
    Without runs of the old revision, no look is taken.
    """
    if canary.verdict is not None:
        return canary
    due = sum(size <= new.counted for size in look_sizes(rollout))
    difference = run_comparison.newcombe(new.group, old.group, error=_ERROR * 2.0**-due)
    if due > canary.looks and difference is not None:
        canary = replace(canary, looks=due)
        if difference.low > -rollout.margin:
            return replace(canary, verdict=Verdict.PROMOTED, new=new, old=old)
        if difference.high < 0:
            return replace(canary, verdict=Verdict.REGRESSED, new=new, old=old)
    if new.counted >= rollout.max_runs:
        return replace(canary, verdict=Verdict.UNDECIDED, new=new, old=old)
    return canary


def request(action: str, canary: Canary) -> str:
    """Return the value of the annotation with which a person decides about a canary."""
    return f"{action} {canary.revision}"


def apply_request(
    canary: Canary, requested: str | None, *, new: Runs | None, old: Runs | None
) -> Canary:
    """Apply a person's decision; ignored if the canary is promoted or has another revision.

    A stopped canary can be promoted.
    """
    verdicts = {request("promote", canary): Verdict.PROMOTED}
    if canary.verdict is None:
        verdicts[request("stop", canary)] = Verdict.STOPPED
    verdict = verdicts.get(requested or "")
    if verdict is None or canary.verdict is Verdict.PROMOTED:
        return canary
    return replace(
        canary, verdict=verdict, by_hand=True, new=new or canary.new, old=old or canary.old
    )


def next_look(canary: Canary, rollout: Rollout) -> int:
    """Return the number of counted runs after which the canary is judged next."""
    sizes = look_sizes(rollout)
    return sizes[min(canary.looks, len(sizes) - 1)]
