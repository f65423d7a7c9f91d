"""Runs every question through the service's own recall and through FTS5, and counts."""

import re
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

import apsw

from bench.figures import table
from bench.recall import conversation_generator, marks, turn_formats
from bench.recall.queries import Question, Set
from bench.recall.sets import held_out_conversations, read_conversations, reported_sets, tuning_sets
from knowledge_client.models import FactIn, RecallIn, Source
from knowledge_service.domain import facts as domain
from knowledge_service.domain.principals import administrator
from knowledge_service.ports import Actor
from knowledge_service.store.sqlite.store import SqliteStore
from knowledge_service.use_cases import recall as use_cases_recall

# What is asked for: enough for every figure.
LIMIT = 50
NOW = datetime(2026, 9, 1, tzinfo=UTC)
SCOPE = "realm:bench"
Finder = Callable[[Question], list[str]]
MARKS = ("recall@1", "@5", "@10", "MRR", "all evidence@20", "in 1,000 tokens")
HEAD = ("questions", "finder", *MARKS, "CPU ms")


def fts5(facts: dict[str, FactIn]) -> Finder:
    """Plain FTS5: porter stemming, all words of the question, best first by its own bm25()."""
    connection = apsw.Connection(":memory:")
    connection.execute("CREATE VIRTUAL TABLE f USING fts5(text, tokenize='porter unicode61')")
    ids = list(facts)
    for number, fact in enumerate(facts.values()):
        parts = (fact.content, fact.subject or "", " ".join(fact.tags))
        connection.execute("INSERT INTO f(rowid, text) VALUES(?, ?)", (number, "\n".join(parts)))

    def find(question: Question) -> list[str]:
        match_query = " OR ".join(f'"{term}"' for term in re.findall(r"\w+", question.text))
        sql = "SELECT rowid FROM f WHERE f MATCH ? ORDER BY bm25(f), rowid LIMIT ?"
        return [ids[number] for (number,) in connection.execute(sql, (match_query, LIMIT))]

    return find


def recall(store: SqliteStore, facts: dict[str, FactIn]) -> Finder:
    """The service's recall, without HTTP."""
    source = Source(type="import", actor="bench")
    new = [
        domain.new_fact(fact, scope=SCOPE, source=fact.source or source, confidence=0.5)
        for fact in facts.values()
    ]
    remembered = store.remember(new, actor=Actor("bench", "system"))
    id_of = {stored.fact_id: name for stored, name in zip(remembered, facts, strict=True)}
    reader = administrator("bench", "system")

    def find(question: Question) -> list[str]:
        body = RecallIn(query=question.text, limit=LIMIT, valid_at=question.valid_at)
        answer = use_cases_recall.recall(store, reader, body, now=NOW, idempotency_key=None)
        return [id_of[fact.id] for fact in answer.facts]

    return find


class Counts:
    """The marks of the answers to questions with evidence, and the processor time of these."""

    def __init__(self) -> None:
        self.marks: list[marks.Marks] = []
        self.seconds = 0.0

    def add(self, question: Question, fact_ids: Sequence[str], facts: dict[str, FactIn]) -> None:
        """Count one question."""
        self.marks.append(marks.mark_all_evidence(fact_ids, question, facts))

    def row(
        self, name: str, finder: str, render: Callable[[Sequence[float]], str] = marks.mean
    ) -> list[object]:
        """Return the figures as a row of percentages."""
        shares = [render([each[mark] for each in self.marks]) for mark in MARKS]
        return [name, finder, *shares, f"{1000 * self.seconds / len(self.marks):.2f}"]


def measure_sets(
    members: Sequence[Set], render: Callable[[Sequence[float]], str] = marks.mean
) -> list[list[object]]:
    """Ask all questions of some sets of both finders; one row for each kind of question, too."""
    counts: defaultdict[tuple[str, str], Counts] = defaultdict(Counts)
    for member in members:
        with tempfile.TemporaryDirectory() as folder:
            store = SqliteStore(Path(folder) / "k.db")
            try:
                finders = {"FTS5": fts5(member.facts), "recall": recall(store, member.facts)}
                for question in member.questions:
                    _ask(question, member, finders, counts)
            finally:
                store.close()
    return [counts[key].row(*key, render) for key in sorted(counts)]


# What is asked without an answer in the facts: nothing should be found, or plainly less.
BEST_SCORES_HEAD = (
    "questions", "with an answer", "without", "no result", "best score, with", "without",
    "correctly ordered pairs",
)  # fmt: skip


def compare_best_scores(members: Sequence[Set]) -> list[list[object]]:
    """Compare the best scores of questions with and without an answer.

    "Told apart" is how often a question that has an answer has the higher best score of two; half
    would be chance.
    """
    best: defaultdict[bool, list[float]] = defaultdict(list)
    for member in members:
        with tempfile.TemporaryDirectory() as folder:
            store = SqliteStore(Path(folder) / "k.db")
            try:
                recall(store, member.facts)
                reader = administrator("bench", "system")
                for question in member.questions:
                    body = RecallIn(query=question.text, limit=1, valid_at=question.valid_at)
                    answer = use_cases_recall.recall(
                        store, reader, body, now=NOW, idempotency_key=None
                    )
                    score = answer.facts[0].score if answer.facts else 0.0
                    best[bool(question.evidence)].append(score)
            finally:
                store.close()
    answerable, unanswerable = sorted(best[True]), sorted(best[False])
    if not (answerable and unanswerable):
        return []
    pairs = [(a > b) + (a == b) / 2 for a in answerable for b in unanswerable]
    return [
        [
            members[0].name,
            len(answerable),
            len(unanswerable),
            unanswerable.count(0.0),
            f"{answerable[len(answerable) // 2]:.1f}",
            f"{unanswerable[len(unanswerable) // 2]:.1f}",
            f"{100 * sum(pairs) / len(pairs):.1f} %",
        ]
    ]


def _ask(
    question: Question,
    member: Set,
    finders: dict[str, Finder],
    counts: defaultdict[tuple[str, str], Counts],
) -> None:
    if not question.evidence:
        return
    for name, find in finders.items():
        start = time.thread_time()
        fact_ids = find(question)
        spent = time.thread_time() - start
        for kind in ("all", question.type):
            counts[kind, name].add(question, fact_ids, member.facts)
            counts[kind, name].seconds += spent


# The same figures for each way of telling: one scope for each conversation, and one for all.
FORMATS_HEAD = (
    "format", "recall@1", "@5", "@10", "MRR", "all evidence@20",
    "ten in one scope: @1", "@5", "@10", "MRR", "all evidence@20",
)  # fmt: skip


def measure_formats() -> list[list[object]]:
    """Ask every other question of the second half of ten conversations, told in each way."""
    talks = [
        *read_conversations(),
        *(conversation_generator.generate(number) for number in range(100, 104)),
        *held_out_conversations(4),
    ]
    # What is said twice would be one fact if it is told one way, and two in another.
    turns = [conversation_generator.without_repeats(conversation) for conversation in talks]
    rows = [
        _row(name, turn_format, turns) for name, turn_format in turn_formats.TURN_FORMATS.items()
    ]
    turns = [conversation_generator.shuffle_nearby(conversation) for conversation in turns]
    return rows + [
        _row(f"{name}, by four clients at once", turn_formats.TURN_FORMATS[name], turns)
        for name in turn_formats.CONCURRENT_FORMATS
    ]


def _row(
    name: str,
    turn_format: turn_formats.TurnFormat,
    turns: Sequence[conversation_generator.Conversation],
) -> list[object]:
    separate_sets = [
        turn_formats.build_set([conversation], turn_format).half(1).some(2)
        for conversation in turns
    ]
    joined_sets = [turn_formats.build_set(turns, turn_format).half(1).some(2)]
    return [name, *_figures(separate_sets), *_figures(joined_sets)]


def _figures(members: Sequence[Set]) -> list[object]:
    counts = Counts()
    for member in members:
        with tempfile.TemporaryDirectory() as folder:
            store = SqliteStore(Path(folder) / "k.db")
            try:
                find = recall(store, member.facts)
                for question in member.questions:
                    if question.evidence:
                        counts.add(question, find(question), member.facts)
            finally:
                store.close()
    return counts.row("", "")[2:7]


def run() -> str:
    """Measure what is reported; return the section of docs/benchmarks.md."""
    parts = ["## What recall finds\n"]
    for name, members, reported in reported_sets():
        fact_count = sum(len(member.facts) for member in reported)
        question_count = sum(len(member.questions) for member in reported)
        parts.append(f"\n{name.capitalize()}: {fact_count} facts, {question_count} questions.\n")
        parts.append(table(HEAD, measure_sets(reported)))
        # Nothing was tuned for these, and they are few: both halves are asked.
        best_scores = compare_best_scores(members)
        if best_scores:
            parts.append("\nMedians of the best fact's score:\n")
            parts.append(table(BEST_SCORES_HEAD, best_scores))
    parts.append("\nTen conversations in different formats, every other question:\n")
    parts.append(table(FORMATS_HEAD, measure_formats()))
    return "\n".join(parts)


def run_tuning() -> str:
    """Measure what recall is tuned on; what is reported is never looked at for that."""
    parts = []
    for name, members in tuning_sets():
        parts.append(f"\n{name.capitalize()}:\n")
        parts.append(table(HEAD, measure_sets(members)))
    return "\n".join(parts)
