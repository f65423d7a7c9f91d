"""Learns the weights of the ranking features: `python -m bench.recall weights`.

    questions of the training sets -> features of their candidates -> weights -> weights.json

Every question contributes the negative logarithm of the probability that an answering fact wins
against the others, where a candidate wins in proportion to a power of its score. The sum over sets
of several hands is minimised from neutral weights, with a penalty for moving far. The same sets
give the same bytes: nothing is random, and weights are rounded to three decimals.
"""

import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.recall import sets
from bench.recall.meetings import meetings
from bench.recall.queries import Question, Set
from knowledge_client.models import FactIn, RecallIn, Ref, Source
from knowledge_service.domain import facts as domain
from knowledge_service.domain.principals import administrator
from knowledge_service.domain.recall_filters import Filters
from knowledge_service.ports import Actor, Search
from knowledge_service.search import pipeline
from knowledge_service.search.match_selection import SearchQuery
from knowledge_service.search.pipeline import DEFAULT_CONFIG, Gathered
from knowledge_service.search.ranking import ranking, weights
from knowledge_service.search.ranking.weights import ADDITIVE_NAMES, FACTOR_NAMES, Weights
from knowledge_service.store.sqlite.store import SqliteStore
from knowledge_service.use_cases import recall as recall_use_case

FILE = Path(weights.__file__).with_name("weights.json")
Floats = NDArray[np.float64]
NOW = datetime(2026, 9, 1, tzinfo=UTC)
_LIMIT = 50
# A candidate wins in proportion to this power of its score. Chosen by two folds of the sets.
_POWER = 3.0
# The penalty for moving from the start, and the steps and step size of Adam.
_PENALTY, _STEPS, _STEP_SIZE = 0.2, 240, 0.03
_HIGHEST_WEIGHT, _HIGHEST_LOG_FACTOR = 2.0, 0.9
_START = {
    "context.previous": 0.6, "context.second_previous": 0.4, "context.next": 0.2,
    "context.second_next": 0.2, "context.answer": 0.8, "context.second_answer": 0.5,
    "context.run": 0.2, "context.observation": 0.2, "word_vectors": 0.5,
    "x_phrase": 0.04, "x_date": 0.2,
    "x_when": 0.15, "x_wanted.talk": 0.15, "x_wanted.fact": 0.15, "x_speaker.own": 0.2,
    "x_speaker.other": -0.2, "x_short": -0.2,
}  # fmt: skip
_FACTS_OF_A_RUN = 5
ENTITY = "entity "


@dataclass(frozen=True)
class Example:
    """The candidates of one question: a row each."""

    additive: Floats
    factors: Floats
    text: Floats
    fixed: Floats
    """Logarithms of the factors that are not learned."""
    answers: NDArray[np.bool_]


@dataclass(frozen=True)
class TrainingSet:
    """Questions of one origin. If `any_answer` holds, one answering fact is enough."""

    name: str
    members: Sequence[Set]
    share: float
    any_answer: bool = False


def training_sets() -> list[TrainingSet]:
    """Return the sets to learn from; no question of them is reported."""
    operations = sets.operations().half(0)
    talk = [
        sets.to_set(conversation) for conversation in sets.read_conversations(sets.TUNING_NAMES)
    ]
    talk += [member.half(0) for member in sets.written_sets()]
    joined = _joined([operations, *talk])
    return [
        TrainingSet("meetings", meetings(0), 1.0, any_answer=True),
        TrainingSet("conversations, written", talk, 0.6),
        TrainingSet(
            "conversations, made", [member.half(0) for member in sets.generated_sets(0, 3)], 0.3
        ),
        TrainingSet("operations", [operations], 0.4),
        TrainingSet("operations of runs", [in_runs(operations)], 0.3),
        TrainingSet("operations about entities", [about_entities(operations)], 0.3),
        TrainingSet("operations among talk", [_only(joined, operations)], 0.4),
        TrainingSet("talk among operations", [_only(joined, *talk)], 0.4),
    ]


def in_runs(source: Set) -> Set:
    """Put facts into runs: half of the runs have facts of one subject, the others any."""
    facts: dict[str, FactIn] = {}
    names = list(source.facts)
    ordered = sorted(names, key=lambda name: (name.rstrip("0123456789"), name))
    half = len(ordered) // 2
    by_subject = set(ordered[:half])
    for index, name in enumerate([*ordered[:half], *(n for n in names if n not in by_subject)]):
        run = Ref(type="run", id=f"run-{index // _FACTS_OF_A_RUN}")
        origin = Source(type="mission_extraction", refs=(run,), actor="bench")
        facts[name] = source.facts[name].model_copy(update={"source": origin})
    return replace(source, name=f"{source.name} of runs", facts=facts)


def about_entities(source: Set) -> Set:
    """Make facts observations of entities, one for each subject."""
    facts: dict[str, FactIn] = {}
    for name in sorted(source.facts, key=lambda name: (name.rstrip("0123456789"), name)):
        entity = f"{ENTITY}{name.rstrip('0123456789')}"
        facts.setdefault(entity, FactIn(content=entity, kind="entity"))
        facts[name] = source.facts[name].model_copy(update={"about": entity})
    return replace(source, name=f"{source.name} about entities", facts=facts)


def _joined(members: Sequence[Set]) -> Set:
    facts = {
        f"{member.name} {name}": fact for member in members for name, fact in member.facts.items()
    }
    return Set("all in one scope", facts, ())


def _only(joined: Set, *members: Set) -> Set:
    questions = [
        replace(question, evidence=frozenset(f"{member.name} {name}" for name in question.evidence))
        for member in members
        for question in member.questions
    ]
    return replace(joined, questions=tuple(questions))


def remember(store: SqliteStore, scope: str, facts: Mapping[str, FactIn]) -> dict[str, str]:
    """Remember facts in a scope; return their names by id."""
    source = Source(type="import", actor="bench")
    ids: dict[str, str] = {}
    for batch in _batches(facts):
        new = [
            domain.new_fact(
                fact.model_copy(update={"about": ids.get(fact.about or "", fact.about)}),
                scope=scope, source=fact.source or source, confidence=0.5,
            )
            for fact in batch.values()
        ]  # fmt: skip
        remembered = store.remember(new, actor=Actor("bench", "system"))
        ids |= {name: stored.fact_id for name, stored in zip(batch, remembered, strict=True)}
    return {fact_id: name for name, fact_id in ids.items()}


def ask(
    store: SqliteStore, names: Mapping[str, str], query: str, scopes: tuple[str, ...], limit: int
) -> list[str]:
    """Recall facts of some scopes; return their names, the best first."""
    body = RecallIn(query=query, limit=limit, scopes=scopes)
    reader = administrator("bench", "system")
    answer = recall_use_case.recall(store, reader, body, now=NOW, idempotency_key=None)
    return [names[fact.id] for fact in answer.facts]


def _batches(facts: Mapping[str, FactIn]) -> Iterable[dict[str, FactIn]]:
    """Yield entities first, because observations refer to them, and then at most 1,000 at once."""
    entities = {name: fact for name, fact in facts.items() if name.startswith(ENTITY)}
    if entities:
        yield entities
    rest = [(name, fact) for name, fact in facts.items() if name not in entities]
    for start in range(0, len(rest), 1000):
        yield dict(rest[start : start + 1000])


def examples(members: Sequence[Set]) -> list[Example]:
    """Compute the features of all candidates of the questions that have an answer among them."""
    usable = []
    with tempfile.TemporaryDirectory() as folder:
        store = SqliteStore(Path(folder) / "k.db")
        try:
            reader = administrator("bench", "system").view
            for number, member in enumerate(members):
                scope = f"realm:bench{number}"
                names = remember(store, scope, member.facts)
                for question in member.questions:
                    search = Search(reader, question.text, _LIMIT, (scope,), now=NOW)
                    example = _example(store, search, question, names)
                    if example.answers.any() and not example.answers.all():
                        usable.append(example)
        finally:
            store.close()
    return usable


def _example(
    store: SqliteStore, search: Search, question: Question, names: Mapping[str, str]
) -> Example:
    filters = Filters(valid_at=question.valid_at)
    query = SearchQuery(search.query, search.limit, filters, search.now)
    with store.open_snapshot(search) as (connection, snapshot):
        gathered = pipeline.gather(snapshot, query, DEFAULT_CONFIG)
        numbers = sorted(gathered.evidence.rows)
        rows = connection.execute(
            "SELECT fact_no, id FROM fact WHERE fact_no IN (SELECT value FROM json_each(?))",
            (str(numbers),),
        )
        name_of = {number: names[str(fact_id)] for number, fact_id in rows}
    answers = np.array([name_of[number] in question.evidence for number in numbers])
    return Example(*_features(gathered, numbers), answers)


def _features(gathered: Gathered, numbers: Sequence[int]) -> tuple[Floats, Floats, Floats, Floats]:
    """Probe the ranker with one weight at a time, because scores are linear in the weights."""
    evidence = gathered.evidence
    groups = ranking.group_candidates(evidence, use_conversations=True)

    def sums(name: str) -> Floats:
        parts = ranking.sum_features(gathered.query, evidence, groups, _probe(additive=name))
        return np.array([sum(parts[number].values()) for number in numbers])

    def logarithms(name: str) -> Floats:
        factors = ranking.factors_of(
            gathered.query, evidence, groups, numbers, gathered.now, _probe(factor=name)
        )
        return np.log([float(np.prod([*factors[number].values()])) for number in numbers])

    text, fixed = sums(""), logarithms("")
    additive = np.array([sums(name) - text for name in ADDITIVE_NAMES]).T
    learned = np.array([logarithms(name) - fixed for name in FACTOR_NAMES]).T
    return additive, learned, text, fixed


def _probe(additive: str = "", factor: str = "") -> Weights:
    return Weights(
        {name: float(name == additive) for name in ADDITIVE_NAMES},
        {name: float(np.e) if name == factor else 1.0 for name in FACTOR_NAMES},
        digest="probe",
    )


@dataclass(frozen=True)
class Batch:
    """The examples of a training set, one below the other; `starts` are their first rows."""

    additive: Floats
    factors: Floats
    text: Floats
    fixed: Floats
    answers: NDArray[np.bool_]
    starts: NDArray[np.intp]
    share: float
    any_answer: bool


def batch_of(set_examples: Sequence[Example], share: float, *, any_answer: bool) -> Batch:
    """Put examples one below the other."""
    sizes = [len(example.text) for example in set_examples]
    return Batch(
        np.concatenate([example.additive for example in set_examples]),
        np.concatenate([example.factors for example in set_examples]),
        np.concatenate([example.text for example in set_examples]),
        np.concatenate([example.fixed for example in set_examples]),
        np.concatenate([example.answers for example in set_examples]),
        np.cumsum([0, *sizes[:-1]]),
        share,
        any_answer,
    )


def fit(batches: Sequence[Batch]) -> dict[str, float]:
    """Minimise the loss of all batches; return rounded weights by name."""
    start = np.array([_START.get(name, 0.0) for name in weights.WEIGHT_NAMES])
    highest = np.array(
        [_HIGHEST_WEIGHT] * len(ADDITIVE_NAMES) + [_HIGHEST_LOG_FACTOR] * len(FACTOR_NAMES)
    )
    lowest = np.where(np.arange(len(start)) < len(ADDITIVE_NAMES), 0.0, -highest)
    values, mean, square = start.copy(), np.zeros_like(start), np.zeros_like(start)
    for step in range(1, _STEPS + 1):
        gradient = _PENALTY * (values - start)
        for batch in batches:
            gradient += batch.share * gradient_of(batch, values)
        mean = 0.9 * mean + 0.1 * gradient
        square = 0.99 * square + 0.01 * gradient * gradient
        size = _STEP_SIZE * (1 - 0.9 * step / _STEPS)
        direction = (mean / (1 - 0.9**step)) / (np.sqrt(square / (1 - 0.99**step)) + 1e-8)
        values = np.clip(values - size * direction, lowest, highest)
    return {
        name: round(float(value), 3) + 0.0
        for name, value in zip(weights.WEIGHT_NAMES, values, strict=True)
    }


def gradient_of(batch: Batch, values: Floats) -> Floats:
    """Return the gradient of the mean loss of a batch's questions."""
    count = len(ADDITIVE_NAMES)
    sums = np.maximum(batch.text + batch.additive @ values[:count], 1e-6)
    scores = _POWER * (np.log(sums) + batch.factors @ values[count:] + batch.fixed)
    slope = _slope(batch, scores) * _POWER / len(batch.starts)
    additive: Any = (batch.additive * (slope / sums)[:, np.newaxis]).sum(axis=0)
    factors: Any = (batch.factors * slope[:, np.newaxis]).sum(axis=0)
    return np.concatenate([additive, factors])


def _slope(batch: Batch, scores: Floats) -> Floats:
    """Return the derivative of each question's loss by the logarithm of each candidate's share."""
    starts, answers = batch.starts, batch.answers
    sizes = np.diff(np.append(starts, len(scores)))
    powers = np.exp(scores - np.repeat(np.maximum.reduceat(scores, starts), sizes))
    if batch.any_answer:
        answering = np.repeat(np.add.reduceat(powers * answers, starts), sizes)
        everything = np.repeat(np.add.reduceat(powers, starts), sizes)
        won: Floats = powers / everything - powers * answers / np.maximum(answering, 1e-12)
        return won
    wrong_powers = np.repeat(np.add.reduceat(powers * ~answers, starts), sizes)
    count = np.repeat(np.add.reduceat(answers.astype(float), starts), sizes)
    rivals = np.maximum(powers + wrong_powers, 1e-12)
    pull = np.repeat(np.add.reduceat(np.where(answers, 1 / rivals, 0.0), starts), sizes)
    slope: Floats = powers * pull / count
    slope[answers] = -(wrong_powers / rivals / count)[answers]
    return slope


def learn() -> bytes:
    """Return the bytes of the file of weights."""
    batches = [
        batch_of(
            examples(training_set.members), training_set.share, any_answer=training_set.any_answer
        )
        for training_set in training_sets()
    ]
    return weights.render(fit(batches))
