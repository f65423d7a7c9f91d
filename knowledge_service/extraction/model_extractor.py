"""Extracts facts by a model; keeps only those that the record of the run supports.

A malformed answer is repaired once. The cost of each call is reserved before it is sent and settled
after it, so that the calls of a realm stay within the budget. A call that a crash interrupted
counts with its maximum cost.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Protocol

from knowledge_client.models import Episode, Run
from knowledge_service.domain import extraction_answer, extraction_prompt, repetition
from knowledge_service.domain.extraction_answer import DrawnFact, MalformedAnswer
from knowledge_service.extraction.evidence import check
from knowledge_service.extraction.model_client import (
    Message,
    ModelAnswer,
    ModelCallFailed,
    ModelClient,
)
from knowledge_service.extraction.settings import ExtractionSettings, ModelEndpoint

_MILLION = Decimal(1_000_000)
_OVERHEAD_TOKENS = 1_000  # of the schema, and of the roles of messages


class ModelUnusable(Exception):
    """The model cannot extract facts of this run, now or later; the message says why."""


class ModelUnavailable(Exception):
    """The model gave no answer, and may later."""

    def __init__(self, message: str, retry_after_s: float | None) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


@dataclass(frozen=True, kw_only=True)
class CallUsage:
    """The usage of a call; `cost` is None if its price is unknown."""

    input_tokens: int
    output_tokens: int
    cost: Decimal | None


class CallLedger(Protocol):
    """Records the calls of one extraction."""

    def reserve(self, cost: Decimal | None, budget: Decimal | None) -> bool:
        """Record that a call of at most this cost begins; False if the budget does not allow it."""
        ...

    def settle(self, reserved: Decimal | None, usage: CallUsage) -> None:
        """Replace a reservation by what the call used."""
        ...


@dataclass(frozen=True)
class Draft:
    """The facts that the record supports, and those that were left out, each with the reason."""

    facts: tuple[DrawnFact, ...]
    rejected: tuple[tuple[str, str], ...]


class ModelExtractor:
    """Asks the models of the settings."""

    def __init__(self, settings: ExtractionSettings, client: ModelClient) -> None:
        self._settings = settings
        self._client = client

    @property
    def names(self) -> tuple[str, ...]:
        """The models that may be asked."""
        return tuple(self._settings.models)

    def extract(
        self,
        model: str,
        run: Run,
        episodes: Sequence[Episode],
        existing_facts: Sequence[str],
        *,
        limit: int,
        ledger: CallLedger,
    ) -> Draft:
        """Return at most `limit` facts that are not among the `known` ones.

        Raises:
            ModelUnusable: the model is not allowed, too expensive, refuses, or answers twice with
                something else.
            ModelUnavailable: a later call may succeed.
        """
        endpoint = self._settings.models.get(model)
        if endpoint is None:
            allowed = ", ".join(self.names) or "none"
            raise ModelUnusable(
                f"the model {model} is not one that this installation allows ({allowed}); "
                "add it to knowledge.extraction.models of the chart"
            )
        messages: list[Message] = [
            ("user", extraction_prompt.message(run, episodes, existing_facts))
        ]
        answer = self._call(endpoint, messages, ledger)
        try:
            facts = _parse(answer)
        except MalformedAnswer as exc:
            repair = extraction_prompt.REPAIR.format(problem=exc)
            messages += [("assistant", answer.text or "(empty)"), ("user", repair)]
            try:
                facts = _parse(self._call(endpoint, messages, ledger))
            except MalformedAnswer as second:
                raise ModelUnusable(
                    f"the model {model} answered twice with something else than facts: {second}"
                ) from second
        return _checked(facts, episodes, existing_facts, limit)

    def _call(
        self, endpoint: ModelEndpoint, messages: Sequence[Message], ledger: CallLedger
    ) -> ModelAnswer:
        # A token has at least one byte. The estimate counts only until the answer.
        size = sum(len(text.encode()) for _, text in messages)
        most_input = size + len(extraction_prompt.INSTRUCTIONS) + _OVERHEAD_TOKENS
        worst = _cost(endpoint, most_input, endpoint.max_tokens)
        budget = self._settings.budget
        if worst is None and budget is not None:
            raise ModelUnusable(
                f"the price of the model {endpoint.name} is unknown, and KAIS_EXTRACTION_BUDGET is "
                "set; give its prices in knowledge.extraction.models"
            )
        if not ledger.reserve(worst, budget):
            raise ModelUnusable(
                f"a call of the model {endpoint.name} may cost {worst:.4f} US dollars, which "
                f"exceeds what is left of the {budget} that the extractions of a realm may cost "
                "in 24 hours"
            )
        try:
            answer = self._client.call(endpoint, messages)
        except ModelCallFailed as exc:
            if exc.was_answered:
                no_usage = CallUsage(input_tokens=0, output_tokens=0, cost=Decimal(0))
                ledger.settle(worst, no_usage)
            if exc.is_temporary:
                raise ModelUnavailable(str(exc), exc.retry_after_s) from exc
            raise ModelUnusable(str(exc)) from exc
        if answer.input_tokens is None or answer.output_tokens is None:
            # The endpoint does not count: the reservation stands.
            return answer
        usage = CallUsage(
            input_tokens=answer.input_tokens,
            output_tokens=answer.output_tokens,
            cost=_cost(endpoint, answer.input_tokens, answer.output_tokens),
        )
        ledger.settle(worst, usage)
        return answer


def _parse(answer: ModelAnswer) -> tuple[DrawnFact, ...]:
    if answer.is_cut:
        raise MalformedAnswer("it was cut at the maximum length; state fewer and shorter facts")
    return extraction_answer.parse(answer.text)


def _cost(endpoint: ModelEndpoint, input_tokens: int, output_tokens: int) -> Decimal | None:
    if endpoint.input_price is None or endpoint.output_price is None:
        return None
    total = endpoint.input_price * input_tokens + endpoint.output_price * output_tokens
    return total / _MILLION


def _checked(
    facts: Sequence[DrawnFact],
    episodes: Sequence[Episode],
    existing_facts: Sequence[str],
    limit: int,
) -> Draft:
    texts = {episode.seq: _text(episode) for episode in episodes}
    selected: list[DrawnFact] = []
    rejected: list[tuple[str, str]] = []
    for fact in facts:
        problem = _problem(fact, texts, [*existing_facts, *(each.content for each in selected)])
        if problem is None and len(selected) == limit:
            problem = f"{limit} facts were asked for"
        if problem is None:
            selected.append(fact)
        else:
            rejected.append((fact.content, problem))
    return Draft(tuple(selected), tuple(rejected))


def _problem(fact: DrawnFact, texts: dict[int, str], earlier: Sequence[str]) -> str | None:
    missing = [seq for seq in fact.episodes if seq not in texts]
    if missing:
        return f"the episode {missing[0]} does not exist"
    if not fact.episodes:
        return "it names no episode"
    if any(repetition.is_repetition(fact.content, text) for text in earlier):
        return "it repeats a known fact"
    return check.missing_support(fact.content, [texts[seq] for seq in fact.episodes])


def _text(episode: Episode) -> str:
    return "\n".join(text for text in (episode.error_signature, episode.content) if text)
