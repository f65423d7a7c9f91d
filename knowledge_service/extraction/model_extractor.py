"""Extracts facts by a model; keeps only those that the record of the run supports.

The model is asked for facts, and then for verdicts on those that may be stored. Without verdicts,
the check of words decides.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from knowledge_client.models import Episode, Run
from knowledge_service.domain import (
    episode_text,
    extraction_answer,
    extraction_prompt,
    prompt_injection,
    repetition,
)
from knowledge_service.domain.extraction_answer import DrawnFact
from knowledge_service.domain.extraction_verification import Statement
from knowledge_service.extraction import statement_verification
from knowledge_service.extraction.accounted_calls import AccountedCalls, CallLedger, ModelUnusable
from knowledge_service.extraction.model_client import ModelClient, Prompt
from knowledge_service.extraction.settings import ExtractionSettings
from knowledge_service.extraction.statement_verification import Cause, Defect, Verification

_LARGEST_SHOWN: Final = 10**9
_EVIDENCE_CHARS: Final = 100_000
_REPETITION: Final = "it repeats a known fact"
PROMPT: Final = Prompt(extraction_prompt.INSTRUCTIONS, extraction_prompt.SCHEMA, "facts")


@dataclass(frozen=True)
class Rejection:
    """A fact that was left out, and why; `detail` is in the words of the model."""

    content: str
    reason: str
    detail: str = ""


@dataclass(frozen=True)
class Unverified:
    """How many of all facts were judged without a verdict of the model, and why, by cause."""

    count: int
    total: int
    problems: Mapping[Cause, str]

    def __str__(self) -> str:
        return f"{self.count} of {self.total} facts ({', '.join(self.problems.values())})"


@dataclass(frozen=True)
class Draft:
    """The facts that the record supports, and those that were left out.

    `unverified` is None if the model verified all facts, or if it verifies none.
    """

    facts: tuple[DrawnFact, ...]
    rejected: tuple[Rejection, ...]
    unverified: Unverified | None = None


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
        calls = AccountedCalls(self._client, endpoint, self._settings.budget, ledger)
        message = extraction_prompt.message(run, episodes, existing_facts)
        facts = calls.ask(PROMPT, message, extraction_answer.parse)
        selection = _Selection(facts, episodes, existing_facts)
        verification = Verification()
        if endpoint.is_verifying:
            verification = selection.verify(calls)
        return selection.draft(verification, limit)


class _Selection:
    """The facts of an answer: which may be stored, and why the others are left out."""

    def __init__(
        self,
        facts: Sequence[DrawnFact],
        episodes: Sequence[Episode],
        existing_facts: Sequence[str],
    ) -> None:
        texts = {episode.seq: episode_text.text_of(episode) for episode in episodes}
        self._facts = facts
        self._defects: dict[int, Defect] = {}
        self._statements: dict[int, Statement] = {}
        repetitions = repetition.find_repetitions([fact.content for fact in facts], existing_facts)
        for place, (fact, is_repetition) in enumerate(zip(facts, repetitions, strict=True)):
            if problem := _unproven(fact, texts):
                self._defects[place] = Defect(problem)
            elif is_repetition:
                self._defects[place] = Defect(_REPETITION)
            else:
                named = [(seq, texts[seq]) for seq in sorted(set(fact.episodes))]
                self._statements[place] = Statement(episode_text.legible(fact.content), named)

    def verify(self, calls: AccountedCalls) -> Verification:
        """Ask the model about the statements.

        An episode with instructions might gain the statements of others a verdict, so that the
        check of words decides on those that name one.
        """
        named = dict(pair for each in self._statements.values() for pair in each.episodes)
        ordering = {seq for seq, text in named.items() if prompt_injection.detect_flags(text)}
        places = [
            place
            for place, statement in self._statements.items()
            if not prompt_injection.detect_flags(statement.text)
            and ordering.isdisjoint(seq for seq, _ in statement.episodes)
        ]
        answer = statement_verification.verify(calls, [self._statements[at] for at in places])
        verdicts = {places[at]: verdict for at, verdict in answer.verdicts.items()}
        problems = dict(answer.problems)
        if flagged := len(self._statements) - len(places):
            problems[Cause.INSTRUCTIONS] = f"an episode or the text of {flagged} has instructions"
        return Verification(verdicts, problems)

    def draft(self, verification: Verification, limit: int) -> Draft:
        """Return at most `limit` facts, and why each other one is left out."""
        selected: list[DrawnFact] = []
        rejected: list[Rejection] = []
        for place, fact in enumerate(self._facts):
            defect = self._defects.get(place)
            if defect is None:
                defect = self._defect(place, verification, [each.content for each in selected])
            if defect is None and len(selected) == limit:
                defect = Defect(f"{limit} facts were asked for")
            if defect is None:
                selected.append(fact)
            else:
                rejected.append(Rejection(fact.content, defect.reason, defect.detail))
        return Draft(tuple(selected), tuple(rejected), self._unverified(verification))

    def _unverified(self, verification: Verification) -> Unverified | None:
        total = len(self._statements)
        if not verification.problems:
            return None
        return Unverified(total - len(verification.verdicts), total, verification.problems)

    def _defect(
        self, place: int, verification: Verification, selected: Sequence[str]
    ) -> Defect | None:
        content = self._facts[place].content
        if any(repetition.is_repetition(content, text) for text in selected):
            return Defect(_REPETITION)
        verdict = verification.verdicts.get(place)
        return statement_verification.defect(self._statements[place], verdict)


def _unproven(fact: DrawnFact, texts: Mapping[int, str]) -> str | None:
    missing = [seq for seq in fact.episodes if seq not in texts]
    if missing:
        # The condition of a Mission has no room for a number of a thousand digits.
        is_legible = abs(missing[0]) <= _LARGEST_SHOWN
        name = f"the episode {missing[0]}" if is_legible else "an episode with a huge number"
        return f"{name} does not exist"
    if not fact.episodes:
        return "it names no episode"
    # The check of words takes one to two seconds for this many.
    if sum(len(texts[seq]) for seq in set(fact.episodes)) > _EVIDENCE_CHARS:
        return f"its episodes have more than {_EVIDENCE_CHARS:,} characters together"
    return None
