"""Who says what, in which session, and on which day: what ties facts of a conversation together.

Nobody has to tell turns in one way. The one who speaks is read from the words (`Anna: ...`), from
data, or, where names come again and again, from subject, title or tag; the session from what a fact
is about, refers to or is tagged with, from data, from what stands before the words in brackets, or
from the moment that facts share. Pure.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence, Set
from itertools import pairwise

from knowledge_service.domain import voices
from knowledge_service.domain.voices import Told
from knowledge_service.index import dates
from knowledge_service.index.candidates import Candidate

# `Anna: text`, `[7 May, 14:05] Anna: text`, `Anna said ...`; at most three words of a name.
_SPEAKER = re.compile(
    r"(?:[\[(](?P<head>[^\])\n]{0,60})[\])]\s*)?"
    r"(?P<who>[A-Z][\w'.-]{0,30}(?: [A-Z][\w'.-]{0,30}){0,2})"
    r"\s*(?:\([^)\n]{0,40}\)\s*)?(?::| said\b| says\b| asked\b| wrote\b)"
)
_NAME = re.compile(r"[A-Z][\w'.-]{1,30}(?: [A-Z][\w'.-]{0,30}){0,2}")
_TALK = re.compile(r"(?i)session|conversation|thread|dialog|chat|meeting|channel|call|interview")
_TURN = re.compile(r"(?i)turn|message|utterance|line|post|dia_id|comment|^dia$")
_LABEL = (
    r"(?:session|conv(?:ersation)?|dialog(?:ue)?|chat|thread|meeting|day)[-_:/ #]?[^\"]{0,40}?\d+"
)
_TALK_TAG = re.compile(rf'(?i)"({_LABEL}[^"]{{0,20}})"')
_HEAD_LABEL = re.compile(rf"(?i)\b{_LABEL}")
_TURN_TAG = re.compile(r'"([A-Za-z]{1,12}\d{1,6}):\d{1,6}"')
_TURN_ID = re.compile(r"(.*\d.*)[:#/.]\d+")
Session = tuple[int, str, Hashable]
"""The scope, by what facts are tied together, and its name."""
# Turns of a session that are told at once stand closer; found ones leave gaps. Arbitrary.
_CLOSE = 48
# More than any number of a turn, so that no two runs meet.
_APART_BY = 1 << 32
_LAST_NUMBER = re.compile(r"\d{1,9}$")
_SENTENCE = re.compile(r"[^.!?]+[.!?]*")
_ASKED = ("?", '?"', "?\u201d")
# So many words beside its questions are a greeting or a comment ("Wow, congratulations!").
_GREETING = 6
_DAY_US = 86_400_000_000
# So many facts must bear a name before names in subjects, titles and tags are taken for speakers',
# and each name comes twice on average. Few things but those of a conversation are told like that.
_ENOUGH = 4
# So many people may talk in a session though none says much.
_FEW = 4


def speaker(row: Candidate) -> str | None:
    """Return who says the content, case-folded; None unless it is put as somebody's words."""
    match = _SPEAKER.match(row.content)
    if match:
        return match["who"].casefold()
    return _told(row.data_json).voice.casefold() or None if row.data_json else None


def is_voice(row: Candidate, names: frozenset[str]) -> bool:
    """Tell whether one of these case-folded names says the content, or the fact bears it."""
    who = speaker(row)
    if who is not None:
        return not names.isdisjoint((who, *who.split()))
    for text in (row.subject, row.title):
        if text:
            folded = text.casefold()
            if not names.isdisjoint((folded, *folded.split())):
                return True
    return row.tags_json != "[]" and not names.isdisjoint(map(str.casefold, row.tags))


def sessions(rows: Iterable[Candidate]) -> dict[int, Session]:
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
        who = _who(row)
        if who:
            spoken.setdefault(_of_day(row), []).append((row.number, who))
        else:
            name = _name(row)
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
    return session(row) or (_by_moment(row) if _name(row) else None)


def session(row: Candidate) -> Session | None:
    """Name what a fact is a part of, as far as it says so itself.

    The entity it is about, the session or run that it refers to, a tag such as `session_3`, data,
    or, for somebody's words, the day they are of. None when nothing ties it to others.
    """
    tied = _pointed(row) or _of_data(row)
    if tied is not None:
        return tied
    return _of_day(row) if _who(row) else None


def _pointed(row: Candidate) -> Session | None:
    if row.about:
        return row.scope_no, "about", row.about
    if '"refs":[{' in row.source_json:
        return row.scope_no, "ref", _referred(row.source_json)
    tag = _talk_tag(row.tags_json) if row.tags_json != "[]" else None
    return (row.scope_no, "tag", tag) if tag else None


def _of_data(row: Candidate) -> Session | None:
    told = _told(row.data_json) if row.data_json else voices.NOTHING
    if told.session:
        return row.scope_no, "data", told.session
    turn = _TURN_ID.fullmatch(told.turn) if told.turn else None
    return (row.scope_no, "turn", turn[1]) if turn else None


def _who(row: Candidate) -> str | None:
    """Return who says the content in a conversation."""
    match = _SPEAKER.match(row.content)
    if match:
        return match["who"]
    told = _told(row.data_json) if row.data_json else voices.NOTHING
    return None if told.written else told.voice or None


def _of_day(row: Candidate) -> Session:
    """Name the day of somebody's words."""
    if row.valid_from_us is not None:
        return row.scope_no, "day", row.valid_from_us // _DAY_US
    match = _SPEAKER.match(row.content)
    when = _told(row.data_json).when if row.data_json else ""
    return row.scope_no, "day", _headed((match["head"] if match else None) or when)


def in_order(
    sessions: Mapping[int, Session], rows: Mapping[int, Candidate], places: Mapping[int, int]
) -> Mapping[int, int]:
    """Return where facts of sessions stand: places, unless turns that say their number disagree.

    Several clients that tell a conversation at once mix its turns. Then the numbers of that session
    stand for its places. What came far apart under one name are two sessions.
    """
    numbered: dict[Session, list[tuple[int, int, int]]] = {}
    for number, name in sessions.items():
        turn = _turn(rows[number]) if number in places else None
        if turn is not None:
            numbered.setdefault(name, []).append((places[number], turn, number))
    found = dict(places)
    for known in numbered.values():
        for run in _runs(sorted(known)):
            if any(one[1] > other[1] for one, other in pairwise(run)):
                start = run[0][0] * _APART_BY
                found |= {number: start + turn for _, turn, number in run}
    return found


def _runs(known: Sequence[tuple[int, int, int]]) -> Iterator[Sequence[tuple[int, int, int]]]:
    """Part what did not come close together, by place."""
    start = 0
    for end, (one, other) in enumerate(pairwise(known), 1):
        if other[0] - one[0] > _CLOSE:
            yield known[start:end]
            start = end
    yield known[start:]


def is_said(row: Candidate) -> bool:
    """Tell whether a name is on it, so that what stands beside it may be what it answers."""
    return bool(_who(row) or _name(row))


def is_asking(row: Candidate) -> bool:
    """Tell whether a turn only asks, and hardly says anything: what is looked for comes after it.

    A fact of the kind `question` is one to be found.
    """
    content = row.content
    if not content.endswith(_ASKED) or row.kind == "question":
        return False
    match = _SPEAKER.match(content)
    sentences = _SENTENCE.findall(content[match.end() :] if match else content)
    said = [each for each in sentences if not each.endswith("?")]
    return sum(len(each.split()) for each in said) <= _GREETING


def said_on(row: Candidate) -> tuple[dates.Moment, ...]:
    """Return the days that stand before somebody's words or beside them, unless it says since when.

    What a fact holds from is said by `valid_from` alone where that is given.
    """
    if row.valid_from_us is not None:
        return ()
    match = _SPEAKER.match(row.content)
    head = match["head"] if match else None
    if head is None and row.data_json:
        head = _told(row.data_json).when
    return tuple(day for day in dates.written(head) if day.year) if head else ()


@functools.lru_cache(maxsize=4096)
def _talk_tag(tags_json: str) -> str | None:
    match = _TALK_TAG.search(tags_json) or _TURN_TAG.search(tags_json)
    return match[1].casefold() if match else None


@functools.lru_cache(maxsize=4096)
def _headed(head: str) -> Hashable:
    """Take what stands before the words: a session's number, a day, or nothing of both."""
    label = _HEAD_LABEL.search(head) if head else None
    if label:
        return label[0].casefold()
    return dates.written(head)[:1] if head else None


@functools.lru_cache(maxsize=4096)
def _told(data_json: str) -> Told:
    return voices.of_json(data_json)


def _name(row: Candidate) -> str | None:
    """Return a name that the fact bears, or None."""
    for text in (row.subject, row.title):
        if text and _NAME.fullmatch(text):
            return text
    return None if row.tags_json == "[]" else _name_among(row.tags_json)


@functools.lru_cache(maxsize=4096)
def _name_among(tags_json: str) -> str | None:
    return next((tag for tag in json.loads(tags_json) if _NAME.fullmatch(tag)), None)


def _turn(row: Candidate) -> int | None:
    """Return the number that a turn has in its session, as data, references or tags tell it."""
    name = _told(row.data_json).turn if row.data_json else ""
    if not name and '"refs":[{' in row.source_json:
        name = _turn_referred(row.source_json)
    if not name and row.tags_json != "[]":
        tag = _TURN_TAG.search(row.tags_json)
        name = tag[0].strip('"') if tag else ""
    last = _LAST_NUMBER.search(name)
    return int(last[0]) if last else row.position


def _by_moment(row: Candidate) -> Session:
    return row.scope_no, "moment", row.valid_from_us


@functools.lru_cache(maxsize=1024)
def _turn_referred(source_json: str) -> str:
    refs: list[dict[str, str]] = json.loads(source_json)["refs"]
    return next((ref["id"] for ref in refs if _TURN.search(ref["type"])), "")


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
            if _TURN.search(ref["type"]):
                kind, name = ref["type"], ref["id"]
    # `D1:3` is the third turn of D1, whatever it is called.
    turn = _TURN_ID.fullmatch(name)
    return kind, turn[1] if turn else name
