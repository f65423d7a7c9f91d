"""Which session a fact is a part of: what ties the turns of a conversation together.

A session is read from what a fact is about, refers to or is tagged with, from data, from what
stands before the words in brackets, or from the moment that facts share. Pure.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Hashable, Iterable, Set

from knowledge_service.domain import conversation_metadata
from knowledge_service.search.ranking.candidates import Candidate
from knowledge_service.search.ranking.conversations import speakers
from knowledge_service.search.text import dates

_TALK = re.compile(r"(?i)session|conversation|thread|dialog|chat|meeting|channel|call|interview")
_LABEL = (
    r"(?:session|conv(?:ersation)?|dialog(?:ue)?|chat|thread|meeting|day)[-_:/ #]?[^\"]{0,40}?\d+"
)
_TALK_TAG = re.compile(rf'(?i)"({_LABEL}[^"]{{0,20}})"')
_HEAD_LABEL = re.compile(rf"(?i)\b{_LABEL}")
TURN = re.compile(r"(?i)turn|message|utterance|line|post|dia_id|comment|^dia$")
"""Types of references that name a turn."""
TURN_TAG = re.compile(r'"([A-Za-z]{1,12}\d{1,6}):\d{1,6}"')
"""A tag that names a turn, in the JSON of a fact's tags: `D1:3` is the third of D1."""
_TURN_ID = re.compile(r"(.*\d.*)[:#/.]\d+")
_DAY_US = 86_400_000_000
# So many facts must bear a name before names in subjects, titles and tags are taken for speakers',
# and each name comes twice on average. Few things but those of a conversation are told like that.
_ENOUGH = 4
# So many people may talk in a session though none says much.
_FEW = 4
Session = tuple[int, str, Hashable]
"""The scope, by what facts are tied together, and its name."""


def of_all(rows: Iterable[Candidate]) -> dict[int, Session]:
    """Name what each fact is a part of: facts of one session stand beside each other.

    Without what nothing ties to others.
    """
    found: dict[int, Session] = {}
    spoken: dict[Session, list[tuple[int, str]]] = {}
    named: dict[Session, list[tuple[int, str]]] = {}
    for row in rows:
        tied = _pointed(row) or _of_data(row)
        if tied is not None:
            found[row.number] = tied
            continue
        who = speakers.who(row)
        if who:
            spoken.setdefault(_of_day(row), []).append((row.number, who))
        else:
            name = speakers.name(row)
            if name:
                named.setdefault(_by_moment(row), []).append((row.number, name))
    names = [name for turns in named.values() for _, name in turns]
    if len(names) >= _ENOUGH and 2 * len(set(names)) <= len(names):
        spoken |= named
    for key, turns in spoken.items():
        if not _are_topics({who for _, who in turns}, len(turns)):
            found |= {number: key for number, _ in turns}
    return found


def _are_topics(names: Set[str], turns: int) -> bool:
    """Tell whether what looks like names are topics (`Redis: ...`): many, and few come again."""
    return len(names) > _FEW and 3 * len(names) > turns


def may_be_of(row: Candidate) -> Session | None:
    """Name what a fact is a part of if names come again and again around it."""
    return of(row) or (_by_moment(row) if speakers.name(row) else None)


def of(row: Candidate) -> Session | None:
    """Name what a fact is a part of, as far as it says so itself.

    The entity it is about, the session or run that it refers to, a tag such as `session_3`, data,
    or, for somebody's words, the day they are of. None when nothing ties it to others.
    """
    tied = _pointed(row) or _of_data(row)
    if tied is not None:
        return tied
    return _of_day(row) if speakers.who(row) else None


def is_talk(session: Session) -> bool:
    """Tell whether it is of what people say, not of what a run or a thing is known by."""
    _, by, name = session
    return by != "about" and not (isinstance(name, tuple) and by == "ref" and not _says(name[0]))


@functools.lru_cache(maxsize=256)
def _says(kind: str) -> bool:
    return _TALK.search(kind) is not None or TURN.search(kind) is not None


def _pointed(row: Candidate) -> Session | None:
    if row.about:
        return row.scope_no, "about", row.about
    if '"refs":[{' in row.source_json:
        return row.scope_no, "ref", _referred(row.source_json)
    tag = _talk_tag(row.tags_json) if row.tags_json != "[]" else None
    return (row.scope_no, "tag", tag) if tag else None


def _of_data(row: Candidate) -> Session | None:
    told = speakers.told(row.data_json) if row.data_json else conversation_metadata.NO_METADATA
    if told.session:
        return row.scope_no, "data", told.session
    turn = _TURN_ID.fullmatch(told.turn) if told.turn else None
    return (row.scope_no, "turn", turn[1]) if turn else None


def _of_day(row: Candidate) -> Session:
    """Name the day of somebody's words."""
    if row.valid_from_us is not None:
        return row.scope_no, "day", row.valid_from_us // _DAY_US
    return row.scope_no, "day", _headed(speakers.when(row))


def _by_moment(row: Candidate) -> Session:
    return row.scope_no, "moment", row.valid_from_us


@functools.lru_cache(maxsize=4096)
def _talk_tag(tags_json: str) -> str | None:
    match = _TALK_TAG.search(tags_json) or TURN_TAG.search(tags_json)
    return match[1].casefold() if match else None


@functools.lru_cache(maxsize=4096)
def _headed(head: str) -> Hashable:
    """Take what stands before the words: a session's number, a day, or nothing of both."""
    label = _HEAD_LABEL.search(head) if head else None
    if label:
        return label[0].casefold()
    return dates.written(head)[:1] if head else None


@functools.lru_cache(maxsize=1024)
def _referred(source_json: str) -> tuple[str, str]:
    refs: list[dict[str, str]] = json.loads(source_json)["refs"]
    kind, name = refs[0]["type"], refs[0]["id"]
    for ref in refs:
        if _TALK.search(ref["type"]):
            kind, name = ref["type"], ref["id"]
            break
    else:
        for ref in refs:
            if TURN.search(ref["type"]):
                kind, name = ref["type"], ref["id"]
    # `D1:3` is the third turn of D1, whatever it is called.
    turn = _TURN_ID.fullmatch(name)
    return kind, turn[1] if turn else name
