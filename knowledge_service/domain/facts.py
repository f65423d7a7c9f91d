"""Facts before they are stored, and the equality of facts. Pure."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
import operator
import string
from collections.abc import Mapping, Sequence
from dataclasses import InitVar, dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar

from kais import facts
from knowledge_client.models import AliasIn, ApproveIn, Fact, FactIn, Ref, Source
from knowledge_service.domain import (
    fact_fields,
    promotion,
    prompt_injection,
    redaction,
    schema_equality,
    text_screening,
)
from knowledge_service.domain.access_control import PLATFORM
from knowledge_service.domain.fact_fields import FactFields
from knowledge_service.domain.fact_text import FactText, rendering

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False)


# Fields that are masked and checked in one loop. Title, content and tags are checked separately.
_MASKS = tuple((each.name, each.mask) for each in fact_fields.STORED_FIELDS if each.mask)
_MASKS_BESIDE_CONTENT = tuple(each for each in _MASKS if each[0] != "content")
_judged_of = operator.itemgetter(
    *(name for name, _ in _MASKS if name not in ("title", "content", "tags"))
)


_MAX_ENTITY_NAME = 512
REVISABLE = ("title", "content", "data", "tags", "subject", "confidence", "expires_at")
"""The fields that a revision may change."""


@dataclass(frozen=True, kw_only=True)
class NewFact(FactFields):
    """A fact that is ready to be stored: source and scope are set, and both gates have run.

    Whatever the source, secrets are masked, and instructions in the text are added to `flags`,
    which exclude the fact from injection.

    Attributes:
        session: the context of a confirmation, usually the run.
        force: store the fact although an equal one was retracted.
        quoted: the text that the content was extracted from; checked but not stored.
    """

    scope: str
    session: str | None = None
    aliases: tuple[AliasIn, ...] = ()
    force: bool = False
    quoted: InitVar[tuple[str, ...]] = ()
    terms: ClassVar[bytes | None] = None
    """The packed terms of the rendering, if they were computed before (`batch_analysis`).

    This is not a field, because facts derived from this one have other terms.
    """

    def __post_init__(self, quoted: tuple[str, ...]) -> None:
        """Mask secrets and add flags."""
        values = self.__dict__
        content, source, tags = values["content"], values["source"], values["tags"]
        signed = text_screening.screen(content)
        refs = [text for ref in source.refs for text in (ref.type, ref.id)] if source.refs else ()
        earned = prompt_injection.detect_flags(
            *self._prose(signed), tags and " ".join(tags), *_judged_of(values), *refs, *quoted
        )
        # The class is frozen, and setting a field of such a class is a call.
        masks = _MASKS if signed & text_screening.SECRET else _MASKS_BESIDE_CONTENT
        for name, mask in masks:
            value = values[name]
            if value is not None:
                values[name] = mask(value)
        values["source"] = _masked_source(source)
        values["flags"] = merged_flags(values["flags"], earned)

    def _prose(self, signed: int) -> tuple[str | None, ...]:
        """Return the content and title texts that the gate for instructions must check.

        Title and content are also checked together, because an instruction may begin in the title
        and end in the content. `signed` are the gates for the content (`text_screening`).
        """
        if not self.title:
            return (self.content,) if signed & text_screening.INSTRUCTION else ()
        is_content, is_title = (
            signed & text_screening.INSTRUCTION,
            text_screening.screen(self.title) & text_screening.INSTRUCTION,
        )
        if not (is_content or is_title):
            return ()
        # Each is also checked alone, because some rules apply only at the beginning of a text.
        return (
            self.content if is_content else None,
            self.title if is_title else None,
            f"{self.title} {self.content}",
        )

    @functools.cached_property
    def content_hash(self) -> bytes:
        """Hash what equality compares.

        That is kind, about or subject, predicate, collapsed content, and the members of the data
        that count for the schema.
        """
        statement = self._statement
        if statement.data and self.schema:
            data = schema_equality.compared_data(self.schema, statement.data)
            statement = dataclasses.replace(statement, data=data)
        return bytes.fromhex(facts.equality_hash_hex(statement))

    @property
    def violations(self) -> list[str]:
        """List every limit that the fact exceeds, as sentences."""
        return facts.violations(self._statement, title=self.title)

    @property
    def _statement(self) -> facts.Statement:
        return facts.Statement(
            self.kind, self.content, self.subject, self.predicate, self.about, self.data
        )

    @property
    def key_hash(self) -> bytes | None:
        """Hash the key of supersession; None unless subject and predicate are both set."""
        return key_hash(self.subject, self.predicate)

    @property
    def rendering(self) -> str:
        """Return the text to index."""
        since = self.valid_from
        if not (self.title or self.subject or self.tags or self.data or since):
            return self.content
        return rendering(
            {"title": self.title, "content": self.content, "subject": self.subject,
             "tags": self.tags, "data": self.data,
             "valid_from": None if since is None else (since - _EPOCH) // _MICROSECOND}
        )  # fmt: skip


_FIELD_DEFAULTS: dict[str, Any] = {
    field.name: field.default
    for field in dataclasses.fields(NewFact)
    if field.default is not dataclasses.MISSING
}


def _create(**values: Any) -> NewFact:
    """Create a fact faster than the constructor, which calls a function for each field."""
    new = NewFact.__new__(NewFact)
    new.__dict__.update(_FIELD_DEFAULTS)
    new.__dict__.update(values)
    new.__post_init__(())
    return new


def new_fact(body: FactIn, *, scope: str, source: Source, confidence: float) -> NewFact:
    """Set the scope, source and confidence of a submitted fact."""
    stated = fact_fields.stated_values(body)
    stated["source"], stated["confidence"] = source, confidence
    return _create(**stated, scope=scope, session=body.run, aliases=body.aliases, force=body.force)


def violations(body: FactIn) -> list[str]:
    """List every limit that a submitted fact exceeds, as sentences.

    Check this before the gates run, because both take time for each word.
    """
    statement = facts.Statement(
        body.kind, body.content, body.subject, body.predicate, body.about, body.data
    )
    return facts.violations(statement, title=body.title)


def flags_of_tags(tags: Sequence[str]) -> tuple[str, ...]:
    """Return the flags of the tags as one text."""
    return prompt_injection.detect_flags(" ".join(tags))


def merged_flags(flags: tuple[str, ...], added: Sequence[str]) -> tuple[str, ...]:
    """Merge flags without duplicates; existing flags come first."""
    return tuple(dict.fromkeys((*flags, *added))) if flags or added else ()


def text_of(body: FactIn) -> FactText | None:
    """Return the text of a fact; None when the fact has other fields."""
    if body.model_fields_set <= _TEXT_FIELDS:
        return FactText(body.kind, body.content, body.title, body.tags)
    return None


_TEXT_FIELDS = {
    "content", "scope", "kind", "title", "tags", "confidence", "review", "force",
}  # fmt: skip


def from_text(body: FactIn, template: NewFact, *, content_hash: bytes, terms: bytes) -> NewFact:
    """Return what `new_fact` would for a text that no gate changes; takes its hash and terms.

    All other fields are those of `template`, a fact that the same caller sent to the same scope.
    """
    confidence = facts.DEFAULT_CONFIDENCE if body.confidence is None else body.confidence
    # The constructor of a frozen class calls a function for each field; a batch has hundreds.
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
    """Mask secrets with a known format in references."""
    mask = redaction.mask_known_formats
    return tuple(Ref(type=mask(ref.type), id=mask(ref.id)) for ref in refs)


def replacement(old: Fact, content: str, actor: str, author: str | None = None) -> NewFact:
    """Return the successor of a corrected fact.

    Content, actor and author are new, everything else is inherited. The title is dropped because it
    may contain the error. Flags stay: only a person's approval removes them. A draft stays a draft.
    """
    stated = fact_fields.stated_values(old) | {
        "content": content,
        "title": None,
        "source": old.source.model_copy(update={"actor": actor, "author": author}),
        "valid_from": None,
        "valid_until": None,
        "review": "draft" if old.review == "draft" else "none",
    }
    return NewFact(**stated, scope=old.scope)


def revision(
    old: Fact, changes: Mapping[str, Any], actor: str, author: str | None = None
) -> NewFact:
    """Return the successor of a revised fact.

    The changes, which are by stored names, actor and author are new; everything else is inherited
    but the start of validity. It passes the gates like any other fact. A draft stays a draft.
    """
    stated = fact_fields.stated_values(old) | {
        "source": old.source.model_copy(update={"actor": actor, "author": author}),
        "valid_from": None,
        "review": "draft" if old.review == "draft" else "none",
    }
    return NewFact(**(stated | dict(changes)), scope=old.scope)


def revision_violations(old: Fact, changes: Mapping[str, Any]) -> list[str]:
    """List every limit that a revision would exceed, before the gates run."""
    stated = fact_fields.stated_values(old) | dict(changes)
    names = ("kind", "content", "subject", "predicate", "about", "data")
    statement = facts.Statement(**{name: stated[name] for name in names})
    violations = facts.violations(statement, title=stated["title"])
    is_entity = (old.kind, old.schema_) == ("entity", "graph/1")
    if is_entity and len(stated["content"]) > _MAX_ENTITY_NAME:
        violations.append(f"the name of an entity has at most {_MAX_ENTITY_NAME} characters")
    return violations


def entity_name(new: NewFact) -> str | None:
    """Return the name by which the graph finds a fact; None if it is no entity."""
    if (new.kind, new.schema) != ("entity", "graph/1") or len(new.content) > _MAX_ENTITY_NAME:
        return None
    return new.content


def is_changed(old: Fact, new: NewFact) -> bool:
    """Return whether a revision changes anything that an author states."""
    stated = fact_fields.stated_values(old)
    return any(getattr(new, name) != stated[name] for name in REVISABLE)


def edited_successor(old: Fact, edits: ApproveIn, actor: str) -> NewFact:
    """Return the successor that a reviewer approves: what is edited, everything else inherited.

    It is valid from the same time as the old fact. It passes the gates like any other fact; the
    approval, if by a person, removes its flags.
    """
    new = replacement(old, edits.content or old.content, actor)
    return dataclasses.replace(
        new,
        title=edits.title or old.title,
        tags=old.tags if edits.tags is None else edits.tags,
        valid_until=old.valid_until,
        force=True,
    )


def is_edited(old: Fact, new: NewFact) -> bool:
    """Return whether a reviewer's successor has another text, title or tags."""
    if new.content_hash != hash_of_fact(old):
        return True
    return (new.title, new.tags) != (old.title, old.tags)


def promoted_copy(fact: Fact, target: str, *, about: str | None, actor: str) -> NewFact:
    """Return the copy of a fact for the parent scope, with less confidence and a reduced source.

    A copy at the platform names nothing of a realm. `about` is the entity if the parent scope sees
    it. An approval in the original scope removes no flag of the copy, whose text other people must
    judge.
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
    """Hash what equality compares of a stored fact."""
    return content_hash(
        {"kind": fact.kind, "content": fact.content, "subject": fact.subject,
         "predicate": fact.predicate, "about": fact.about, "data": fact.data,
         "schema": fact.schema_}
    )  # fmt: skip


def merge_refs(refs: tuple[Ref, ...], added_refs: tuple[Ref, ...]) -> tuple[Ref, ...]:
    """Merge references without duplicates; keep the first 32."""
    return tuple(dict.fromkeys((*refs, *added_refs)))[:32]


def key_hash(subject: str | None, predicate: str | None) -> bytes | None:
    """Hash (subject, predicate), normalised and case-folded; None unless both are set."""
    if not (subject and predicate):
        return None
    pair = [facts.normalize_key(subject), facts.normalize_key(predicate)]
    return hashlib.sha256(canonical(pair).encode()).digest() if all(pair) else None


def content_hash(fact: Mapping[str, Any]) -> bytes:
    """Hash what equality compares of a fact, from its fields in the event log."""
    statement = facts.Statement(
        fact["kind"], fact["content"], fact.get("subject"), fact.get("predicate"),
        fact.get("about"),
        schema_equality.compared_data(fact.get("schema"), fact.get("data")),
    )  # fmt: skip
    return bytes.fromhex(facts.equality_hash_hex(statement))


def canonical(value: Any) -> str:
    """Encode JSON so that equal values give equal text."""
    return _CANONICAL.encode(value)


def contains_text(fact: Fact, text: str) -> bool:
    """Return whether the title, content or subject of a fact has a text; case is ignored.

    If the text is ASCII, only the case of ASCII letters is ignored, as by LIKE in SQLite.
    """
    fold = _fold_ascii if text.isascii() else str.casefold
    folded = fold(text)
    return any(folded in fold(part) for part in (fact.content, fact.title, fact.subject) if part)


_ASCII_LOWER = str.maketrans({letter: letter.lower() for letter in string.ascii_uppercase})


def _fold_ascii(text: str) -> str:
    return text.translate(_ASCII_LOWER)
