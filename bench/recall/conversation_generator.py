"""Long made-up conversations: two speakers, months of sessions, questions with their turns.

Everything comes from a seed. The same kinds of events happen to both speakers and happen again, so
that names, topics and dates must be told apart; the answer to a question often shares no word with
it because the other speaker asked first.
"""

import functools
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

_DATA = Path(__file__).with_name("conversations")


@dataclass(frozen=True)
class Event:
    """What is said about one thing (`A` tells, `B` listens), and what may be asked later."""

    lines: tuple[str, ...]
    questions: tuple[tuple[str, tuple[int, ...], str], ...]


@dataclass(frozen=True)
class Material:
    """What conversations are made of: events, words for their slots, and small talk."""

    events: tuple[Event, ...]
    slots: dict[str, tuple[str, ...]]
    chat: tuple[tuple[str, str], ...]


@functools.cache
def material(events: str = "events") -> Material:
    """Read it from the files beside; `events` names the one that things happen in."""
    blocks = (_DATA / f"{events}.txt").read_text().strip().split("\n\n")
    slots = {}
    for line in (_DATA / "slots.txt").read_text().splitlines():
        name, options = line.split(": ", 1)
        slots[name] = tuple(options.split(" | "))
    chat = tuple(
        (opening, answer)
        for opening, answer in (
            line.split(" | ") for line in (_DATA / "chat.txt").read_text().splitlines()
        )
    )
    return Material(tuple(map(_event, blocks)), slots, chat)


def _event(block: str) -> Event:
    lines = block.splitlines()
    questions = []
    for line in lines:
        if line.startswith("? "):
            kind, line_numbers, text = line[2:].split("|", 2)
            questions.append((kind, tuple(int(number) for number in line_numbers.split(",")), text))
    return Event(tuple(line for line in lines if not line.startswith("? ")), tuple(questions))


@dataclass
class Turn:
    """One line of a conversation."""

    id: str
    session: int
    at: datetime
    speaker: str
    text: str


@dataclass
class Question:
    """What is asked about a conversation, and the ids of the turns that answer it."""

    type: str
    text: str
    evidence: tuple[str, ...]


@dataclass
class Conversation:
    """Two people over months."""

    name: str
    turns: list[Turn] = field(default_factory=list)
    questions: list[Question] = field(default_factory=list)


def generate(
    number: int, sessions: int = 26, *, seed: int = 11, events: str = "events"
) -> Conversation:
    """Make one conversation of about 500 turns and 100 questions."""
    rng = random.Random(f"{seed}-{number}")  # noqa: S311 - made-up text, no secret
    source = material(events)
    pair = rng.sample(source.slots["names"], 2)
    talk = Conversation(f"made-{number}")
    at = datetime(2023, 1, 5, tzinfo=UTC) + timedelta(days=rng.randrange(300))
    event_counts: dict[tuple[int, str], int] = {}
    for session in range(1, sessions + 1):
        at += timedelta(days=rng.randrange(4, 19))
        start = at.replace(hour=rng.randrange(8, 22), minute=rng.randrange(60))
        for speaker, text, turn_questions in _session(rng, source, pair, event_counts):
            turn = Turn(f"D{session}:{_count(talk, session)}", session, start, speaker, text)
            talk.turns.append(turn)
            for kind, question, distances in turn_questions:
                ids = tuple(talk.turns[-1 - b].id for b in reversed(distances))
                talk.questions.append(Question(kind, question, ids))
    talk.questions = _unambiguous(talk.questions)
    return talk


def _count(talk: Conversation, session: int) -> int:
    return 1 + sum(turn.session == session for turn in talk.turns)


SpokenLine = tuple[str, str, list[tuple[str, str, tuple[int, ...]]]]


def _session(
    rng: random.Random, source: Material, pair: list[str], event_counts: dict[tuple[int, str], int]
) -> Iterator[SpokenLine]:
    events, chat = source.events, source.chat
    yield from _chat(rng, pair, chat[:2])
    for _ in range(rng.randrange(2, 5)):
        number = rng.randrange(len(events))
        teller = rng.randrange(2)
        event_counts[number, pair[teller]] = event_counts.get((number, pair[teller]), 0) + 1
        yield from _tell_event(rng, events[number], pair[teller], pair[1 - teller])
        if rng.random() < 0.7:
            yield from _chat(rng, pair, chat[2:])
    yield from _chat(rng, pair, chat[8:12])


def _chat(
    rng: random.Random, pair: list[str], from_: tuple[tuple[str, str], ...]
) -> Iterator[SpokenLine]:
    first, second = rng.sample(pair, 2)
    opening, answer = rng.choice(from_)
    names = {"A": first, "B": second}
    yield first, opening.format(**names), []
    yield second, answer.format(**names), []


def _tell_event(
    rng: random.Random, event: Event, teller: str, listener: str
) -> Iterator[SpokenLine]:
    values = {name: rng.choice(options) for name, options in material().slots.items()}
    values |= {"A": teller, "B": listener}
    last = len(event.lines) - 1
    for index, line in enumerate(event.lines):
        role, text = line.split(": ", 1)
        questions = []
        if index == last:
            for kind, answer_lines, question in event.questions:
                questions.append(
                    (
                        kind,
                        question.format(**values),
                        tuple(last - p for p in reversed(answer_lines)),
                    )
                )
        yield (teller if role == "A" else listener), text.format(**values), questions


def _unambiguous(questions: list[Question]) -> list[Question]:
    """Join questions that are asked word for word more than once: each of their turns answers."""
    joined: dict[str, Question] = {}
    for question in questions:
        old = joined.setdefault(question.text, question)
        if old is not question:
            evidence = tuple(dict.fromkeys((*old.evidence, *question.evidence)))
            joined[question.text] = Question("multi", question.text, evidence)
    return list(joined.values())


def read(text: str, questions: str, name: str) -> Conversation:
    """Read a conversation that somebody wrote: `# date time`, then `Speaker: text` lines."""
    talk = Conversation(name)
    session, number, at = 0, 0, datetime(2024, 1, 1, tzinfo=UTC)
    for line in text.splitlines():
        if line.startswith("# "):
            session, number = session + 1, 0
            at = datetime.strptime(line[2:], "%Y-%m-%d %H:%M").replace(tzinfo=UTC)
        elif line.strip():
            number += 1
            speaker, utterance = line.split(": ", 1)
            talk.turns.append(Turn(f"D{session}:{number}", session, at, speaker, utterance))
    kinds = {"s": "single", "m": "multi", "t": "time", "u": "unanswerable"}
    for line in questions.splitlines():
        kind, ids, question = line.split("|", 2)
        talk.questions.append(Question(kinds[kind], question, tuple(ids.split(","))))
    return talk


def shuffle_nearby(talk: Conversation, max_distance: int = 4) -> Conversation:
    """Put turns up to so many places apart, as clients do that tell them at the same time."""
    rng = random.Random(max_distance)  # noqa: S311 - made-up text, no secret
    order = sorted(range(len(talk.turns)), key=lambda index: index + rng.random() * max_distance)
    return Conversation(talk.name, [talk.turns[index] for index in order], talk.questions)


def without_repeats(talk: Conversation) -> Conversation:
    """Leave out what the same speaker says again word for word; its first time answers for it."""
    first: dict[tuple[str, str], Turn] = {}
    for turn in talk.turns:
        first.setdefault((turn.speaker, turn.text), turn)
    first_ids = {turn.id: first[turn.speaker, turn.text].id for turn in talk.turns}
    questions = [
        Question(
            question.type,
            question.text,
            tuple(dict.fromkeys(first_ids[e] for e in question.evidence)),
        )
        for question in talk.questions
    ]
    return Conversation(talk.name, list(first.values()), questions)
