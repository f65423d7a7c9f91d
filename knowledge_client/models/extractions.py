"""The durable job that extracts facts from a closed run."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from knowledge_client.base_model import WireModel

MODEL_ANSWER_SECONDS = 120.0
"""The service gives up a call of a model whose answer is not complete after this time."""
MODEL_SILENCE_SECONDS = 60.0
"""The service gives up an answer of which nothing arrives for this time."""
_CALLS = 4  # one for facts and one for verdicts, each with a repair
REPLAY_SECONDS = _CALLS * (MODEL_ANSWER_SECONDS + MODEL_SILENCE_SECONDS)
"""How long a replay may take; connecting to the endpoint of a model counts besides its answer."""


class ExtractionIn(WireModel):
    """Ask for the extraction of a closed run, once per run. `max_facts` 0 to 7.

    `namespace` is that of the run, as in `EpisodesIn`.
    """

    run_id: str
    namespace: str | None = Field(default=None, max_length=63)
    max_facts: int = Field(default=7, ge=0, le=7)


class Extraction(WireModel):
    """The state of a run's extraction.

    `reason` explains why there are fewer than three facts, why no model was asked, or why it did
    not verify its facts. `model` is the one that was chosen; without one, rules extract alone. The
    counts are those of all its calls; `cost` is in US dollars, and an interrupted call counts with
    its worst case.
    """

    run_id: str
    state: Literal["pending", "running", "done", "failed"]
    facts: tuple[str, ...] = ()
    reason: str | None = None
    attempts: int = 0
    model: str | None = None
    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float = 0.0


class ReplayIn(WireModel):
    """Ask a model for the facts of a run once more, without storing any."""

    run_id: str
    namespace: str | None = Field(default=None, max_length=63)
    model: str = Field(min_length=1, max_length=253)


class ReplayedFact(WireModel):
    """A fact of a replayed extraction.

    `comparison` is `stored` if the run's extraction stored the same, `new` if it did not, and
    `left_out` if it would not be stored, for the `reason`.
    """

    content: str
    kind: str
    confidence: float
    tags: tuple[str, ...] = ()
    episodes: tuple[int, ...] = ()
    comparison: Literal["stored", "new", "left_out"]
    reason: str | None = None


class ExtractionReplay(WireModel):
    """The facts that a model extracts from a run now, compared with the stored ones.

    Nothing is stored. `missing` are the stored facts of the run that neither the model nor the
    rules extract now. `unverified` is why some facts were compared without a verdict of the model.
    """

    run_id: str
    model: str
    facts: tuple[ReplayedFact, ...]
    missing: tuple[str, ...] = ()
    unverified: str | None = None
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float = 0.0
