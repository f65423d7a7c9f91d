"""The durable job that extracts facts from a closed run."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from knowledge_client.base_model import WireModel


class ExtractionIn(WireModel):
    """Ask for the extraction of a closed run, once per run. `max_facts` 0 to 7.

    `namespace` is that of the run, as in `EpisodesIn`.
    """

    run_id: str
    namespace: str | None = Field(default=None, max_length=63)
    max_facts: int = Field(default=7, ge=0, le=7)


class Extraction(WireModel):
    """The state of a run's extraction; `reason` explains why there are fewer than three facts."""

    run_id: str
    state: Literal["pending", "running", "done", "failed"]
    facts: tuple[str, ...] = ()
    reason: str | None = None
    attempts: int = 0
