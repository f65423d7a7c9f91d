"""Ways in which a conversation may be told: where name, session and time of a turn are put.

A way makes of each turn a fact; the words and their order stay. What a recall finds should depend
little on the way.
"""

from collections.abc import Callable, Sequence
from datetime import datetime

from bench.recall.conversation_generator import Conversation, Turn
from bench.recall.queries import Question, Set
from knowledge_client.models import FactIn, Ref, Source
from knowledge_service.domain import facts as domain
from knowledge_service.routes import compat_v0

TurnFormat = Callable[[Turn], FactIn]


def _spoken_text(turn: Turn) -> str:
    return f"{turn.speaker}: {turn.text}"


def _clock(at: datetime) -> str:
    return f"{at.hour % 12 or 12}:{at:%M} {'am' if at.hour < 12 else 'pm'}"


def _day(at: datetime) -> str:
    return f"{at.day} {at:%B, %Y}"


def _source(*refs: tuple[str, str]) -> Source:
    return Source(type="import", refs=tuple(Ref(type=kind, id=name) for kind, name in refs))


def tagged(turn: Turn) -> FactIn:
    """Put the name before the words, and the session beside them as a tag."""
    return FactIn(content=_spoken_text(turn), tags=(f"session_{turn.session}",), valid_from=turn.at)


def _dated(turn: Turn) -> FactIn:
    return FactIn(content=_spoken_text(turn), valid_from=turn.at)


def _bare(turn: Turn) -> FactIn:
    return FactIn(content=_spoken_text(turn))


def _reported(turn: Turn) -> FactIn:
    return FactIn(content=f'{turn.speaker} said, "{turn.text}"', valid_from=turn.at)


def _subject(turn: Turn) -> FactIn:
    tags = (f"session-{turn.session}",)
    return FactIn(content=turn.text, subject=turn.speaker, tags=tags, valid_from=turn.at)


def _title(turn: Turn) -> FactIn:
    return FactIn(content=turn.text, title=turn.speaker, valid_from=turn.at)


def _tag(turn: Turn) -> FactIn:
    tags = (turn.speaker, f"s{turn.session}")
    return FactIn(content=turn.text, tags=tags, valid_from=turn.at)


def _data(turn: Turn) -> FactIn:
    data = {"speaker": turn.speaker, "session": turn.session, "dia_id": turn.id}
    return FactIn(content=turn.text, data=data, valid_from=turn.at)


def _all_data(turn: Turn) -> FactIn:
    data = {
        "speaker": turn.speaker, "session_id": f"session_{turn.session}", "turn": turn.id,
        "date": f"{_clock(turn.at)} on {_day(turn.at)}",
    }  # fmt: skip
    return FactIn(content=turn.text, data=data)


def _refs(turn: Turn) -> FactIn:
    source = _source(("session", f"session_{turn.session}"), ("turn", turn.id))
    return FactIn(content=_spoken_text(turn), source=source, valid_from=turn.at)


def _turn_refs(turn: Turn) -> FactIn:
    return FactIn(
        content=_spoken_text(turn), source=_source(("dia_id", turn.id)), valid_from=turn.at
    )


def _bracketed(turn: Turn) -> FactIn:
    return FactIn(content=f"[{_day(turn.at)} {_clock(turn.at)}] {_spoken_text(turn)}")


def _parenthesised(turn: Turn) -> FactIn:
    return FactIn(content=f"({_clock(turn.at)} on {_day(turn.at)}) {_spoken_text(turn)}")


def _iso(turn: Turn) -> FactIn:
    return FactIn(content=f"[{turn.at:%Y-%m-%d %H:%M}] {turn.speaker}: {turn.text}")


def _reference(turn: Turn) -> FactIn:
    text = f"[session_{turn.session}, {_day(turn.at)}] {_spoken_text(turn)}"
    return compat_v0.to_fact_in(compat_v0.RememberBody(content=text, tags=(turn.id,)))


TURN_FORMATS: dict[str, TurnFormat] = {
    "`Anna: text`, session as tag, valid_from": tagged,
    "`Anna: text`, valid_from": _dated,
    "`Anna: text`": _bare,
    '`Anna said, "text"`, valid_from': _reported,
    "name as subject, session as tag, valid_from": _subject,
    "name as title, valid_from": _title,
    "name and session as tags, valid_from": _tag,
    "name, session, turn in data, valid_from": _data,
    "name, session, turn, date in data": _all_data,
    "`Anna: text`, session and turn as refs, valid_from": _refs,
    "`Anna: text`, turn as ref, valid_from": _turn_refs,
    "`[8 May, 2023 1:56 pm] Anna: text`": _bracketed,
    "`(1:56 pm on 8 May, 2023) Anna: text`": _parenthesised,
    "`[2023-05-08 13:56] Anna: text`": _iso,
    "`/remember`: `[session_1, 8 May, 2023] Anna: text`, turn as tag": _reference,
}
"""Each way in words."""
CONCURRENT_FORMATS = ("`Anna: text`, valid_from", "`Anna: text`, turn as ref, valid_from")
"""Told by several at once as well, without and with the number of a turn."""


def build_set(conversations: Sequence[Conversation], turn_format: TurnFormat) -> Set:
    """Tell conversations to one scope; the same words again confirm the first fact."""
    facts: dict[str, FactIn] = {}
    first: dict[bytes, str] = {}
    questions = []
    for conversation in conversations:
        fact_names = {}
        for turn in conversation.turns:
            name = f"{conversation.name} {turn.id}"
            body = turn_format(turn)
            new = domain.new_fact(body, scope="realm:bench", source=Source(), confidence=0.5)
            fact_names[turn.id] = first.setdefault(new.content_hash, name)
            if fact_names[turn.id] == name:
                facts[name] = body
        for n, question in enumerate(conversation.questions):
            evidence = frozenset(fact_names[turn_id] for turn_id in question.evidence)
            questions.append(
                Question(f"{conversation.name} q{n}", question.type, question.text, evidence)
            )
    return Set("", facts, tuple(questions))
