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
    asks: tuple[tuple[str, tuple[int, ...], str], ...]


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
        name, words = line.split(": ", 1)
        slots[name] = tuple(words.split(" | "))
    chat = tuple(
        (opening, answer)
        for opening, answer in (
            line.split(" | ") for line in (_DATA / "chat.txt").read_text().splitlines()
        )
    )
    return Material(tuple(map(_event, blocks)), slots, chat)


def _event(block: str) -> Event:
    lines = block.splitlines()
    asks = []
    for line in lines:
        if line.startswith("? "):
            kind, places, text = line[2:].split("|", 2)
            asks.append((kind, tuple(int(place) for place in places.split(",")), text))
    return Event(tuple(line for line in lines if not line.startswith("? ")), tuple(asks))


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


def made(
    number: int, sessions: int = 26, *, seed: int = 11, events: str = "events"
) -> Conversation:
    """Make one conversation of about 500 turns and 100 questions."""
    rng = random.Random(f"{seed}-{number}")  # noqa: S311 - made-up text, no secret
    words = material(events)
    pair = rng.sample(words.slots["names"], 2)
    talk = Conversation(f"made-{number}")
    at = datetime(2023, 1, 5, tzinfo=UTC) + timedelta(days=rng.randrange(300))
    used: dict[tuple[int, str], int] = {}
    for session in range(1, sessions + 1):
        at += timedelta(days=rng.randrange(4, 19))
        start = at.replace(hour=rng.randrange(8, 22), minute=rng.randrange(60))
        for speaker, text, asks in _session(rng, words, pair, used):
            turn = Turn(f"D{session}:{_count(talk, session)}", session, start, speaker, text)
            talk.turns.append(turn)
            for kind, question, back in asks:
                ids = tuple(talk.turns[-1 - b].id for b in reversed(back))
                talk.questions.append(Question(kind, question, ids))
    talk.questions = _unambiguous(talk.questions)
    return talk


def _count(talk: Conversation, session: int) -> int:
    return 1 + sum(turn.session == session for turn in talk.turns)


Said = tuple[str, str, list[tuple[str, str, tuple[int, ...]]]]


def _session(
    rng: random.Random, words: Material, pair: list[str], used: dict[tuple[int, str], int]
) -> Iterator[Said]:
    events, chat = words.events, words.chat
    yield from _chat(rng, pair, chat[:2])
    for _ in range(rng.randrange(2, 5)):
        number = rng.randrange(len(events))
        teller = rng.randrange(2)
        used[number, pair[teller]] = used.get((number, pair[teller]), 0) + 1
        yield from _told(rng, events[number], pair[teller], pair[1 - teller])
        if rng.random() < 0.7:
            yield from _chat(rng, pair, chat[2:])
    yield from _chat(rng, pair, chat[8:12])


def _chat(
    rng: random.Random, pair: list[str], from_: tuple[tuple[str, str], ...]
) -> Iterator[Said]:
    first, second = rng.sample(pair, 2)
    opening, answer = rng.choice(from_)
    names = {"A": first, "B": second}
    yield first, opening.format(**names), []
    yield second, answer.format(**names), []


def _told(rng: random.Random, event: Event, teller: str, listener: str) -> Iterator[Said]:
    values = {name: rng.choice(options) for name, options in material().slots.items()}
    values |= {"A": teller, "B": listener}
    last = len(event.lines) - 1
    for place, line in enumerate(event.lines):
        role, text = line.split(": ", 1)
        asks = []
        if place == last:
            for kind, places, question in event.asks:
                asks.append(
                    (kind, question.format(**values), tuple(last - p for p in reversed(places)))
                )
        yield (teller if role == "A" else listener), text.format(**values), asks


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
            speaker, said = line.split(": ", 1)
            talk.turns.append(Turn(f"D{session}:{number}", session, at, speaker, said))
    kinds = {"s": "single", "m": "multi", "t": "time", "u": "unanswerable"}
    for line in questions.splitlines():
        kind, ids, question = line.split("|", 2)
        talk.questions.append(Question(kinds[kind], question, tuple(ids.split(","))))
    return talk


def mixed(talk: Conversation, places: int = 4) -> Conversation:
    """Put turns up to so many places apart, as clients do that tell them at the same time."""
    rng = random.Random(places)  # noqa: S311 - made-up text, no secret
    order = sorted(range(len(talk.turns)), key=lambda place: place + rng.random() * places)
    return Conversation(talk.name, [talk.turns[place] for place in order], talk.questions)


def once(talk: Conversation) -> Conversation:
    """Leave out what the same speaker says again word for word; its first time answers for it."""
    first: dict[tuple[str, str], Turn] = {}
    for turn in talk.turns:
        first.setdefault((turn.speaker, turn.text), turn)
    of = {turn.id: first[turn.speaker, turn.text].id for turn in talk.turns}
    questions = [
        Question(each.type, each.text, tuple(dict.fromkeys(of[e] for e in each.evidence)))
        for each in talk.questions
    ]
    return Conversation(talk.name, list(first.values()), questions)
