"""What each feature brings: `python -m bench.recall features [--faqs DIR] [--locomo FILE...]`.

Each feature is made neutral, alone, and the questions of the judging sets are asked again. No word
of these sets is of this project, and no weight was learned from them: the judged half of the
meetings, LoCoMo, and the FAQs of other projects. No fact of these is of a run or an observation. So
the context of such facts is judged on the FAQs with each project as a run, or as an entity, and on
the notes of LoCoMo with each session as a run, or each speaker as an entity.
"""

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType

import numpy as np

from bench.figures import table
from bench.recall import evaluation, faqs, locomo, marks, training
from bench.recall.meetings import meetings
from bench.recall.queries import Question, Set
from knowledge_client.models import FactIn, Ref, Source
from knowledge_service.search import second_hop
from knowledge_service.search.pipeline import DEFAULT_CONFIG, RankerConfig
from knowledge_service.search.ranking import ranking
from knowledge_service.search.ranking.weights import FACTOR_NAMES, SHIPPED, WEIGHT_NAMES, Weights
from knowledge_service.store.sqlite.store import SqliteStore

_MARKS_OF_ANY_FACT = ("MRR", "first", "among 5", "among 10")
Mark = Callable[[Sequence[str], Question, Mapping[str, FactIn]], marks.Marks]


@dataclass(frozen=True)
class Ablation:
    """A feature, its weight as the tables show it, and the ranker without it."""

    name: str
    weight: str
    config: RankerConfig = DEFAULT_CONFIG
    constants: tuple[tuple[ModuleType, str, float], ...] = ()
    """Neutral values of what is no part of the configuration."""


@dataclass(frozen=True)
class JudgingSet:
    """Questions by other authors, how an answer is marked, and the features to judge."""

    name: str
    members: Sequence[Set]
    mark: Mark
    marks: tuple[str, ...]
    limit: int
    column: str
    """The set's column in the table of all sets."""
    features: frozenset[str] | None = None


@dataclass(frozen=True)
class Answers:
    """The facts of each answer, their marks, and the kinds of the questions."""

    facts: Sequence[Sequence[str]]
    marks: Sequence[marks.Marks]
    kinds: Sequence[str]


def weights_without(name: str) -> Weights:
    """Return the shipped weights with one that is neutral."""
    additive = {**SHIPPED.additive, **({} if name in FACTOR_NAMES else {name: 0.0})}
    factors = {**SHIPPED.factors, **({name: 1.0} if name in FACTOR_NAMES else {})}
    return Weights(additive, factors, digest=f"without {name}")


def ablations() -> list[Ablation]:
    """Return the learned features, and those of the others that the sets can judge."""
    learned = [
        Ablation(name, _format_weight(name), RankerConfig(weights=weights_without(name)))
        for name in WEIGHT_NAMES
    ]
    recency = ((ranking, "_RECENT", 0.0), (ranking, "_RECENT_NOW", 0.0), (ranking, "_RIVAL", 2.0))
    vectors = ((second_hop, "_VECTORS_WEIGHT", 0.0),)
    return [
        *learned,
        Ablation("second hop", "", RankerConfig(use_second_hop=False)),
        Ablation("word_vectors, in the second hop", "+ 0.60", constants=vectors),
        Ablation("x_recency", "", constants=recency),
    ]


def _format_weight(name: str) -> str:
    if name in FACTOR_NAMES:
        return f"x {SHIPPED.factors[name]:.2f}"
    return f"+ {SHIPPED.additive[name]:.2f}"


def judging_sets(locomo_files: Sequence[Path], faqs_folder: Path | None) -> Iterator[JudgingSet]:
    """Yield the meetings, and the sets that are not in the repository if their files are named."""
    yield JudgingSet(
        "meetings", meetings(1), _mark_any_fact,
        (*_MARKS_OF_ANY_FACT, "share of the first 10"), 10, "meetings",
    )  # fmt: skip
    if locomo_files:
        conversations = [*locomo.read(locomo_files)]
        yield JudgingSet(
            "LoCoMo", conversations, marks.mark_all_evidence, evaluation.MARKS,
            evaluation.LIMIT, "LoCoMo",
        )  # fmt: skip
        notes = [*locomo.read_notes(locomo_files)]
        plain = JudgingSet("notes", notes, _mark_any_fact, _MARKS_OF_ANY_FACT, 20, "notes")
        yield plain
        yield replace(
            plain, name="notes, each session as a run",
            members=[in_runs(each, locomo.session_of_note) for each in notes],
            features=frozenset({"context.run"}),
        )  # fmt: skip
        yield replace(
            plain, name="notes, each speaker as an entity",
            members=[about_entities(each, locomo.speaker_of_note) for each in notes],
            features=frozenset({"context.observation"}),
        )  # fmt: skip
    if faqs_folder:
        both = _joined_halves(*faqs.read(faqs_folder))
        plain = JudgingSet("FAQs", [both], _mark_any_fact, _MARKS_OF_ANY_FACT, 20, "FAQs")
        yield plain
        yield replace(
            plain, name="FAQs, each project as a run", members=[in_runs(both, _project)],
            features=frozenset({"context.run"}),
        )  # fmt: skip
        yield replace(
            plain, name="FAQs, each project as an entity", members=[about_entities(both, _project)],
            features=frozenset({"context.observation"}),
        )  # fmt: skip


def _mark_any_fact(
    fact_ids: Sequence[str], question: Question, facts: Mapping[str, FactIn]
) -> marks.Marks:
    del facts
    return marks.mark_answer(fact_ids, question.evidence)


def _joined_halves(*halves: Set) -> Set:
    questions = [
        replace(question, type=f"{half.name} half")
        for half in halves
        for question in half.questions
    ]
    return Set("FAQs", halves[0].facts, tuple(questions))


def in_runs(source: Set, run_of: Callable[[str], str]) -> Set:
    """Make each fact one that a run brought: the one that `run_of` gives for its name."""
    facts = {}
    for name, fact in source.facts.items():
        run = Ref(type="run", id=run_of(name).replace("/", "-"))
        origin = Source(type="mission_extraction", refs=(run,), actor="bench")
        facts[name] = fact.model_copy(update={"source": origin})
    return replace(source, facts=facts)


def about_entities(source: Set, entity_of: Callable[[str], str]) -> Set:
    """Make each fact an observation of the entity that `entity_of` gives for its name."""
    entities = {f"{training.ENTITY}{entity_of(name)}" for name in source.facts}
    facts = {name: FactIn(content=name, kind="entity") for name in sorted(entities)}
    for name, fact in source.facts.items():
        facts[name] = fact.model_copy(update={"about": f"{training.ENTITY}{entity_of(name)}"})
    return replace(source, facts=facts)


def _project(fact_name: str) -> str:
    return fact_name.rsplit(" ", 1)[0]


def run(locomo_files: Sequence[Path] = (), faqs_folder: Path | None = None) -> str:
    """Return a table of all sets, and the tables of each: what is lost without each feature."""
    parts, summary = [], dict[str, dict[str, list[str]]]()
    columns: dict[str, None] = {}
    for judging_set in judging_sets(locomo_files, faqs_folder):
        shipped, without = _ask_without_each(judging_set)
        columns[judging_set.column] = None
        for ablation, answers in without:
            cells = summary.setdefault(ablation.name, {})
            if _changed(shipped, answers) or judging_set.column not in cells:
                cells[judging_set.column] = summary_cells(shipped, answers)
        parts += [f"\n{judging_set.name}, {len(shipped.facts)} questions:\n"]
        parts += [table_of_marks(judging_set.marks, shipped, without)]
        if len(set(shipped.kinds)) > 1:
            parts += ["\nMRR by kind:\n", table_of_kinds(shipped, without)]
    head = ["feature", "weight"]
    head += [f"{column}: {name}" for column in columns for name in ("MRR", "changed answers")]
    rows = [
        [each.name, each.weight, *(cell for column in columns for cell in cells[column])]
        for each in ablations()
        if (cells := summary[each.name])
    ]
    return "\n".join([table(head, rows), *parts])


def summary_cells(shipped: Answers, without: Answers) -> list[str]:
    """Return what MRR loses and how many answers change."""
    changed = _changed(shipped, without)
    return [_loss(shipped, without, "MRR"), str(changed)] if changed else ["", "0"]


def table_of_marks(
    names: Sequence[str], shipped: Answers, without: Sequence[tuple[Ablation, Answers]]
) -> str:
    rows = [
        [each.name, each.weight, *(_loss(shipped, answers, name) for name in names),
         _changed(shipped, answers)]
        for each, answers in without
    ]  # fmt: skip
    means = [marks.mean_with_interval([each[name] for each in shipped.marks]) for name in names]
    return table(
        ["feature", "weight", *names, "answers that change"],
        [["all features", "", *means, ""], *rows],
    )


def table_of_kinds(shipped: Answers, without: Sequence[tuple[Ablation, Answers]]) -> str:
    """Return what MRR loses without each feature, for each kind of question."""
    kinds = sorted(set(shipped.kinds))
    rows = [
        [each.name, *(_loss(shipped, answers, "MRR", kind) for kind in kinds)]
        for each, answers in without
    ]
    head = [f"{kind}, {shipped.kinds.count(kind)}" for kind in kinds]
    return table(["feature", *head], rows)


def _changed(shipped: Answers, without: Answers) -> int:
    return sum(a != b for a, b in zip(shipped.facts, without.facts, strict=True))


def _loss(shipped: Answers, without: Answers, mark: str, kind: str = "") -> str:
    differences = [
        before[mark] - after[mark]
        for before, after, each in zip(shipped.marks, without.marks, shipped.kinds, strict=True)
        if kind in ("", each)
    ]
    low, high = marks.interval(differences)
    # Adding zero turns -0.0 into 0.0.
    mean, low, high = (round(100 * v, 1) + 0.0 for v in (float(np.mean(differences)), low, high))
    return f"{mean:+.1f} [{low:+.1f}, {high:+.1f}]"


def _ask_without_each(judging_set: JudgingSet) -> tuple[Answers, list[tuple[Ablation, Answers]]]:
    with tempfile.TemporaryDirectory() as folder:
        store = SqliteStore(Path(folder) / "k.db")
        try:
            names = [
                training.remember(store, f"realm:bench{number}", member.facts)
                for number, member in enumerate(judging_set.members)
            ]
            shipped, without = _ask(store, judging_set, names), []
            for ablation in ablations():
                if judging_set.features is None or ablation.name in judging_set.features:
                    store.ranker_config = ablation.config
                    with _constants(ablation.constants):
                        without.append((ablation, _ask(store, judging_set, names)))
        finally:
            store.close()
    return shipped, without


@contextmanager
def _constants(values: Sequence[tuple[ModuleType, str, float]]) -> Iterator[None]:
    shipped = [(module, name, getattr(module, name)) for module, name, _ in values]
    try:
        for module, name, value in values:
            setattr(module, name, value)
        yield
    finally:
        for module, name, value in shipped:
            setattr(module, name, value)


def _ask(
    store: SqliteStore, judging_set: JudgingSet, names: Sequence[Mapping[str, str]]
) -> Answers:
    facts, all_marks, kinds = [], [], []
    for number, member in enumerate(judging_set.members):
        scopes = (f"realm:bench{number}",)
        for question in member.questions:
            if not question.evidence:
                continue
            limit = judging_set.limit
            facts.append(training.ask(store, names[number], question.text, scopes, limit))
            all_marks.append(judging_set.mark(facts[-1], question, member.facts))
            kinds.append(question.type)
    return Answers(facts, all_marks, kinds)
