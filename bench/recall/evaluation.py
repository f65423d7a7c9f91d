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
from bench.recall import talk, ways
from bench.recall.queries import Question, Set
from bench.recall.sets import everything, judged, spoken, tuning
from knowledge_client.models import FactIn, RecallIn, Source
from knowledge_service.domain import facts as domain
from knowledge_service.domain.access_control import administrator
from knowledge_service.ports import Actor
from knowledge_service.store.sqlite.store import SqliteStore
from knowledge_service.use_cases import recall as use_cases_recall

# What is asked for: enough for every figure below.
LIMIT = 50
TOKENS = 1_000
NOW = datetime(2026, 9, 1, tzinfo=UTC)
SCOPE = "realm:bench"
Finder = Callable[[Question], list[str]]
HEAD = (
    "questions", "finder", "recall@1", "@5", "@10", "MRR", "all evidence@20", "in 1,000 tokens",
    "CPU ms",
)  # fmt: skip


def fts5(facts: dict[str, FactIn]) -> Finder:
    """Plain FTS5: porter stemming, all words of the question, best first by its own bm25()."""
    connection = apsw.Connection(":memory:")
    connection.execute("CREATE VIRTUAL TABLE f USING fts5(text, tokenize='porter unicode61')")
    ids = list(facts)
    for number, fact in enumerate(facts.values()):
        parts = (fact.content, fact.subject or "", " ".join(fact.tags))
        connection.execute("INSERT INTO f(rowid, text) VALUES(?, ?)", (number, "\n".join(parts)))

    def find(question: Question) -> list[str]:
        words = " OR ".join(f'"{word}"' for word in re.findall(r"\w+", question.text))
        sql = "SELECT rowid FROM f WHERE f MATCH ? ORDER BY bm25(f), rowid LIMIT ?"
        return [ids[number] for (number,) in connection.execute(sql, (words, LIMIT))]

    return find


def recall(store: SqliteStore, facts: dict[str, FactIn]) -> Finder:
    """The service's recall, without HTTP."""
    source = Source(type="import", actor="bench")
    new = [
        domain.new_fact(fact, scope=SCOPE, source=fact.source or source, confidence=0.5)
        for fact in facts.values()
    ]
    told = store.remember(new, actor=Actor("bench", "system"))
    id_of = {each.fact_id: name for each, name in zip(told, facts, strict=True)}
    reader = administrator("bench", "system")

    def find(question: Question) -> list[str]:
        body = RecallIn(query=question.text, limit=LIMIT, valid_at=question.valid_at)
        answer = use_cases_recall.recall(store, reader, body, now=NOW, idempotency_key=None)
        return [id_of[fact.id] for fact in answer.facts]

    return find


class Counts:
    """Sums of every figure over questions with evidence."""

    def __init__(self) -> None:
        self.sums: defaultdict[str, float] = defaultdict(float)
        self.questions = 0
        self.seconds = 0.0

    def add(self, question: Question, found: Sequence[str], facts: dict[str, FactIn]) -> None:
        """Count one question."""
        wanted = question.evidence
        places = [found.index(each) for each in wanted if each in found]
        self.questions += 1
        for size in (1, 5, 10):
            self.sums[f"@{size}"] += sum(place < size for place in places) / len(wanted)
        self.sums["mrr"] += 1 / (1 + min(places)) if places else 0
        self.sums["all20"] += sum(place < 20 for place in places) == len(wanted)
        left, kept = TOKENS, set()
        for each in found:
            tokens = -(-len(facts[each].content) // 4)
            if tokens <= left:
                left -= tokens
                kept.add(each)
        self.sums["tokens"] += len(kept & wanted) / len(wanted)

    def row(self, name: str, finder: str) -> list[object]:
        """Return the figures as a row of percentages."""
        share = [
            f"{100 * self.sums[key] / self.questions:.1f}"
            for key in ("@1", "@5", "@10", "mrr", "all20", "tokens")
        ]
        return [name, finder, *share, f"{1000 * self.seconds / self.questions:.2f}"]


def measured(members: Sequence[Set]) -> list[list[object]]:
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
    return [counts[key].row(*key) for key in sorted(counts)]


# What is asked without an answer in the facts: nothing should be found, or plainly less.
SILENT = (
    "questions", "with an answer", "without", "nothing found", "best score, with", "without",
    "told apart",
)  # fmt: skip


def silence(members: Sequence[Set]) -> list[list[object]]:
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
    with_, without = sorted(best[True]), sorted(best[False])
    if not (with_ and without):
        return []
    pairs = [(a > b) + (a == b) / 2 for a in with_ for b in without]
    return [
        [
            members[0].name,
            len(with_),
            len(without),
            without.count(0.0),
            f"{with_[len(with_) // 2]:.1f}",
            f"{without[len(without) // 2]:.1f}",
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
        found = find(question)
        spent = time.thread_time() - start
        for kind in ("all", question.type):
            counts[kind, name].add(question, found, member.facts)
            counts[kind, name].seconds += spent


# The same figures for each way of telling: one scope for each conversation, and one for all.
WAYS = (
    "told as", "recall@1", "@5", "@10", "MRR", "all evidence@20",
    "ten in one scope: @1", "@5", "@10", "MRR", "all evidence@20",
)  # fmt: skip


def by_way() -> list[list[object]]:
    """Ask every other question of the second half of ten conversations, told in each way."""
    said = [*spoken(), *(talk.made(number) for number in range(100, 104)), *judged(4)]
    # What is said twice would be one fact if it is told one way, and two in another.
    turns = [talk.once(each) for each in said]
    rows = [_row(name, way, turns) for name, way in ways.WAYS.items()]
    turns = [talk.mixed(each) for each in turns]
    return rows + [
        _row(f"{name}, by four clients at once", ways.WAYS[name], turns) for name in ways.MIXED
    ]


def _row(name: str, way: ways.Way, turns: Sequence[talk.Conversation]) -> list[object]:
    apart = [ways.told([each], way).half(1).some(2) for each in turns]
    together = [ways.told(turns, way).half(1).some(2)]
    return [name, *_figures(apart), *_figures(together)]


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
    for name, members, held in everything():
        facts = sum(len(member.facts) for member in held)
        asked = sum(len(member.questions) for member in held)
        parts.append(f"\n{name.capitalize()}: {facts} facts, {asked} questions.\n")
        parts.append(table(HEAD, measured(held)))
        # Nothing was tuned for these, and they are few: both halves are asked.
        silent = silence(members)
        if silent:
            parts.append("\nMedians of the best fact's score:\n")
            parts.append(table(SILENT, silent))
    parts.append("\nTen conversations told in different ways, every other question:\n")
    parts.append(table(WAYS, by_way()))
    return "\n".join(parts)


def tuned() -> str:
    """Measure what recall is tuned on; what is reported is never looked at for that."""
    parts = []
    for name, members in tuning():
        parts.append(f"\n{name.capitalize()}:\n")
        parts.append(table(HEAD, measured(members)))
    return "\n".join(parts)
