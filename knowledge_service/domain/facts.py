"""What a fact is before it is stored, and what makes two of them equal. Pure."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import InitVar, dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar, NamedTuple

from kais import facts
from knowledge_client.models import AliasIn, ApproveIn, Fact, FactIn, Ref, Source
from knowledge_service.domain import (
    conversation_metadata,
    fact_fields,
    promotion,
    prompt_injection,
    redaction,
    signs,
)
from knowledge_service.domain.access_control import PLATFORM
from knowledge_service.domain.fact_fields import FactFields

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False)


# Masked and judged in one go, apart from the texts that are judged together.
_MASKS = tuple((each.name, each.mask) for each in fact_fields.STORED_FIELDS if each.mask)
_MASKS_BESIDE_CONTENT = tuple(each for each in _MASKS if each[0] != "content")
_JUDGED = tuple(name for name, _ in _MASKS if name not in ("title", "content", "tags"))


@dataclass(frozen=True, kw_only=True)
class NewFact(FactFields):
    """A fact that may be stored: source and scope settled by the service, and both gates passed.

    Whatever its source is, secrets are masked, and instructions in its text are added to
    `flags`, which keep it out of injection. `quoted` is text that the content was drawn from; it is
    judged and not kept. `session` names what a confirmation happened in, usually the run; `force`
    stores a fact although its equal was retracted.
    """

    scope: str
    session: str | None = None
    aliases: tuple[AliasIn, ...] = ()
    force: bool = False
    quoted: InitVar[tuple[str, ...]] = ()
    terms: ClassVar[bytes | None] = None
    """What the index keeps of the rendering, where that was worked out before (`index.looking`).

    No field: what is made of this fact has other words.
    """

    def __post_init__(self, quoted: tuple[str, ...]) -> None:
        """Pass the gates."""
        signed = signs.of(self.content)
        refs = [text for ref in self.source.refs for text in (ref.type, ref.id)]
        values = self.__dict__
        earned = prompt_injection.detect_flags(
            *self._prose(signed), " ".join(self.tags), *(values[name] for name in _JUDGED),
            *refs, *quoted,
        )  # fmt: skip
        # The class is frozen, and setting a field of such a class is a call.
        masks = _MASKS if signed & signs.SECRET else _MASKS_BESIDE_CONTENT
        for name, mask in masks:
            value = values[name]
            if value is not None:
                values[name] = mask(value)
        values["source"] = _masked_source(self.source)
        values["flags"] = merged_flags(self.flags, earned)

    def _prose(self, signed: int) -> tuple[str | None, ...]:
        """Return what the gate for instructions reads of content and title.

        A title is judged with the content too: an instruction may begin in one and end in the
        other. `signed` is what the content may be (`signs`).
        """
        if not self.title:
            return (self.content,) if signed & signs.ORDER else ()
        is_content, is_title = signed & signs.ORDER, signs.of(self.title) & signs.ORDER
        if not (is_content or is_title):
            return ()
        # Each is judged alone as well, because some rules hold at the beginning of a text only.
        return (
            self.content if is_content else None,
            self.title if is_title else None,
            f"{self.title} {self.content}",
        )

    @functools.cached_property
    def content_hash(self) -> bytes:
        """Hash what equality means: kind, about or subject, predicate, collapsed content, data."""
        return bytes.fromhex(facts.equality_hash(self._statement))

    @property
    def violations(self) -> list[str]:
        """List every limit that the fact breaks, in words."""
        return facts.violations(self._statement, title=self.title)

    @property
    def _statement(self) -> facts.Statement:
        return facts.Statement(
            self.kind, self.content, self.subject, self.predicate, self.about, self.data
        )

    @property
    def key_hash(self) -> bytes | None:
        """Hash the key of supersession; None unless subject and predicate are both there."""
        return key_hash(self.subject, self.predicate)

    @property
    def rendering(self) -> str:
        """Return the text that is indexed."""
        since = self.valid_from
        if not (self.title or self.subject or self.tags or self.data or since):
            return self.content
        return rendering(
            {"title": self.title, "content": self.content, "subject": self.subject,
             "tags": self.tags, "data": self.data,
             "valid_from": None if since is None else (since - _EPOCH) // _MICROSECOND}
        )  # fmt: skip


def new_fact(body: FactIn, *, scope: str, source: Source, confidence: float) -> NewFact:
    """Set the scope, source and confidence of a submitted fact."""
    stated = fact_fields.stated_values(body) | {"source": source, "confidence": confidence}
    return NewFact(**stated, scope=scope, session=body.run, aliases=body.aliases, force=body.force)


def violations(body: FactIn) -> list[str]:
    """List every limit that a fact breaks as it was sent: both gates take time for each word."""
    statement = facts.Statement(
        body.kind, body.content, body.subject, body.predicate, body.about, body.data
    )
    return facts.violations(statement, title=body.title)


def flags_of_tags(tags: Sequence[str]) -> tuple[str, ...]:
    """Return the flags that tags earn together."""
    return prompt_injection.detect_flags(" ".join(tags))


def merged_flags(flags: tuple[str, ...], added: Iterable[str]) -> tuple[str, ...]:
    """Put flags together, each once, those that are there first."""
    return tuple(dict.fromkeys((*flags, *added)))


class FactText(NamedTuple):
    """What a fact says that has neither data nor a key, moment or name of its own."""

    kind: str
    content: str
    title: str | None
    tags: tuple[str, ...]

    @property
    def rendering(self) -> str:
        """Return the `rendering` of the fact that is made of this text, if no gate objects."""
        if not (self.title or self.tags):
            return self.content
        tags = tuple(facts.merge_tags((), self.tags))
        return rendering({"title": self.title, "content": self.content, "tags": tags})


def text_of(body: FactIn) -> FactText | None:
    """Return the text of a fact; None when it says more than text."""
    if body.model_fields_set <= _TEXT_FIELDS:
        return FactText(body.kind, body.content, body.title, body.tags)
    return None


_TEXT_FIELDS = {
    "content", "scope", "kind", "title", "tags", "confidence", "review", "force",
}  # fmt: skip


def from_text(body: FactIn, template: NewFact, *, content_hash: bytes, terms: bytes) -> NewFact:
    """Do what `new_fact` does for a text to which no gate objects, with its hash and terms.

    Everything else is as in `template`, a fact that the same caller sent to the same scope.
    """
    confidence = facts.DEFAULT_CONFIDENCE if body.confidence is None else body.confidence
    # The constructor of a frozen class sets each field by a call; a batch makes hundreds.
    new = NewFact.__new__(NewFact)
    new.__dict__.update(template.__dict__)
    new.__dict__.update(
        kind=body.kind,
        content=body.content,
        title=body.title or None,
        tags=tuple(facts.merge_tags((), body.tags)) if body.tags else (),
        confidence=confidence,
        review=body.review,
        force=body.force,
        content_hash=content_hash,
        terms=terms,
    )
    return new


def _masked_source(source: Source) -> Source:
    if not source.refs:
        return source
    return source.model_copy(update={"refs": masked_refs(source.refs)})


def masked_refs(refs: tuple[Ref, ...]) -> tuple[Ref, ...]:
    """Mask what looks like a secret by its form in references."""
    mask = redaction.mask_known_formats
    return tuple(Ref(type=mask(ref.type), id=mask(ref.id)) for ref in refs)


def replacement(old: Fact, content: str, actor: str) -> NewFact:
    """Return the successor of a corrected fact.

    New content and actor, everything else inherited; the title goes, because it may say what was
    wrong. Flags stay: only a person's approval lifts them. A draft stays one.
    """
    stated = fact_fields.stated_values(old) | {
        "content": content,
        "title": None,
        "source": old.source.model_copy(update={"actor": actor}),
        "valid_from": None,
        "valid_until": None,
        "review": "draft" if old.review == "draft" else "none",
    }
    return NewFact(**stated, scope=old.scope)


def edited_successor(old: Fact, edits: ApproveIn, actor: str) -> NewFact:
    """Return the successor that a reviewer approves: the edited words, everything else inherited.

    It is true since when the old one was. It passes the gates as any other; what lifts its flags is
    the approval, if it is a person's.
    """
    new = replacement(old, edits.content or old.content, actor)
    return dataclasses.replace(
        new,
        title=edits.title or old.title,
        tags=old.tags if edits.tags is None else edits.tags,
        valid_until=old.valid_until,
        force=True,
    )


def promoted_copy(fact: Fact, target: str, *, about: str | None, actor: str) -> NewFact:
    """Return the copy of a fact for the scope above: a little less sure, its source reduced.

    At the platform nothing of a realm is named; `about` is the entity when the scope above sees it.
    An approval below lifts no flag above: there the copy's words are for other people to judge.
    """
    refs = () if target == PLATFORM else fact.source.refs
    stated = fact_fields.stated_values(fact) | {
        "about": about,
        "position": fact.position if about else None,
        "confidence": round(fact.confidence * promotion.COPY_CONFIDENCE_FACTOR, 6),
        "source": Source(type="promoted", refs=refs, actor=actor),
        "flags": (),
        "review": "none",
    }
    return NewFact(**stated, scope=target)


def hash_of_fact(fact: Fact) -> bytes:
    """Hash what equality means of a fact that is stored."""
    return content_hash(
        {"kind": fact.kind, "content": fact.content, "subject": fact.subject,
         "predicate": fact.predicate, "about": fact.about, "data": fact.data}
    )  # fmt: skip


def merge_refs(refs: tuple[Ref, ...], added_refs: tuple[Ref, ...]) -> tuple[Ref, ...]:
    """Put references together, each once, at most 32; the first ones stay."""
    return tuple(dict.fromkeys((*refs, *added_refs)))[:32]


def key_hash(subject: str | None, predicate: str | None) -> bytes | None:
    """Hash (subject, predicate), normalised and case-folded; None unless both are there."""
    if not (subject and predicate):
        return None
    pair = [facts.normal_key(subject), facts.normal_key(predicate)]
    return hashlib.sha256(canonical(pair).encode()).digest() if all(pair) else None


def content_hash(fact: Mapping[str, Any]) -> bytes:
    """Hash what equality means from a fact's fields as the event log has them."""
    statement = facts.Statement(
        fact["kind"], fact["content"], fact.get("subject"), fact.get("predicate"),
        fact.get("about"), fact.get("data"),
    )  # fmt: skip
    return bytes.fromhex(facts.equality_hash(statement))


def rendering(fact: Mapping[str, Any]) -> str:
    """Return the text that is indexed, from a fact's fields as the event log has them.

    The day that it holds from is a part of it, so that a question that names the day finds it, and
    of data who said it and when.
    """
    since = fact.get("valid_from")
    day = None if since is None else (_EPOCH + since * _MICROSECOND).date().isoformat()
    turn = conversation_metadata.parse(fact.get("data"))
    parts = (
        fact.get("title"), fact["content"], fact.get("subject"), " ".join(fact["tags"]), day,
        turn.speaker, turn.time_text,
    )  # fmt: skip
    return "\n".join(part for part in parts if part)


def canonical(value: Any) -> str:
    """Write JSON so that equal values give equal text."""
    return _CANONICAL.encode(value)
