"""From a fact as it was sent to one that may be stored: scope, run, source, limits."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from kais import facts as kais_facts
from knowledge_client.models import (
    Corrected,
    CorrectIn,
    Fact,
    FactIn,
    ProblemViolation,
    Ref,
    Remembered,
    Run,
    ScopeRef,
    Source,
)
from knowledge_service.domain import aliases, facts, redaction
from knowledge_service.domain.facts import NewFact
from knowledge_service.domain.visibility import Principal, lineage
from knowledge_service.errors import (
    Conflict,
    Forbidden,
    InvalidBody,
    NotFound,
    SecretRefused,
    TooLarge,
)
from knowledge_service.flows import access

if TYPE_CHECKING:
    from knowledge_service.ports import Once, Store


_DECIDED = ("approved", "rejected")


def prepare(store: Store, principal: Principal, body: FactIn) -> NewFact:
    """Check rights and limits, and settle scope, source and confidence.

    Raises:
        ScopeForbidden, Forbidden, ScopeReadOnly: the caller may not write there.
        NotFound: the run is not one that the caller works in.
        InvalidBody, TooLarge: a limit is passed.
    """
    return prepare_all(store, principal, [body])[0]


def prepare_all(store: Store, principal: Principal, bodies: Sequence[FactIn]) -> list[NewFact]:
    """Prepare facts that are told together; what they have in common is found out once.

    Raises:
        What `prepare` raises, for the first fact that earns it.
    """
    paths: dict[ScopeRef | None, str] = {}
    sources: dict[tuple[Source | None, str | None], Source] = {}

    def one(body: FactIn) -> NewFact:
        if body.scope not in paths:
            paths[body.scope] = access.writable(store, body.scope, principal)
        scope, told = paths[body.scope], (body.source, body.run)
        if told not in sources:
            run = access.run_of(store, body.run, principal) if body.run else None
            sources[told] = _source(body.source, run, principal)
        if body.about and aliases.is_alias(body.about):
            body = body.model_copy(update={"about": visible(store, principal, body.about).id})
        confidence = kais_facts.DEFAULT_CONFIDENCE if body.confidence is None else body.confidence
        fact = facts.new_fact(body, scope=scope, source=sources[told], confidence=confidence)
        refuse_beyond_limits(fact)
        if _is_masked(fact, body, sources[told]):
            refuse_secrets(store, scope)
        _refuse_secret_names(body)
        return fact

    return [one(body) for body in bodies]


def rehearse(
    store: Store, principal: Principal, facts: Sequence[NewFact]
) -> tuple[Remembered, ...]:
    """Tell what remembering would do; a fact that would be new has no id, because none is made.

    Raises:
        RetractedBefore: an equal fact was retracted there.
    """
    made = store.rehearse(facts, actor=access.actor(principal))
    new = {each.fact_id for each in made if each.status == "created"}
    return tuple(
        each.model_copy(
            update={
                "fact_id": "" if each.fact_id in new else each.fact_id,
                "superseded": tuple(old for old in each.superseded if old not in new),
                "contradicts": tuple(other for other in each.contradicts if other not in new),
            }
        )
        for each in made
    )


def _is_masked(fact: NewFact, body: FactIn, source: Source) -> bool:
    told = (body.content, body.title, body.subject, body.predicate, body.data)
    kept = (fact.content, fact.title, fact.subject, fact.predicate, fact.data)
    if told != kept or (body.schema_, body.about, source) != (fact.schema, fact.about, fact.source):
        return True
    return _has_mask(fact.tags) and not _has_mask(body.tags)


def _has_mask(tags: Sequence[str]) -> bool:
    return any(redaction.MASK in tag for tag in tags)


def _refuse_secret_names(body: FactIn) -> None:
    """Let pass names that are none: a masked one would find nothing, so it is refused anywhere."""
    for alias in body.aliases:
        name = alias.value or alias.prefix or ""
        if redaction.mask_known(name) != name:
            raise SecretRefused(
                f"a name of the fact in {alias.namespace!r} looks like a secret;"
                " names are kept as they are, give another"
            )


def refuse_secrets(store: Store, scope: str, text: str | None = None) -> None:
    """Let pass where secrets are masked; with a text, also one that has none.

    Raises:
        SecretRefused: the scope wants what has secrets refused.
    """
    if text is not None and redaction.mask(text) == text:
        return
    config = store.scope_configs([scope]).get(scope)
    if config and config.secrets == "Refuse":
        raise SecretRefused(
            f"scope {scope} refuses text that looks like a secret, and this does;"
            " say where the secret is kept instead of what it is"
        )


def refuse_beyond_limits(fact: NewFact) -> None:
    """Let pass what every limit allows.

    Raises:
        TooLarge: the data is too large.
        InvalidBody: anything else, all violations at once.
    """
    found = fact.violations
    if any(violation.startswith("data has") for violation in found):
        raise TooLarge("; ".join(found))
    if found:
        parts = [text.partition(" ") for text in found]
        violations = tuple(ProblemViolation(path=path, message=said) for path, _, said in parts)
        raise InvalidBody("the fact breaks limits", violations)


def correct(
    store: Store, principal: Principal, fact_id: str, body: CorrectIn, once: Once | None
) -> Corrected:
    """Close a fact that the caller may write to.

    Raises:
        NotFound: there is none that the caller may see.
        Forbidden: it may be seen, not corrected.
    """
    fact = visible(store, principal, fact_id)
    if not principal.may("write", fact.scope):
        raise Forbidden(f"{principal.name} may read fact {fact_id} but not correct it")
    refuse_decided(principal, fact, "correct")
    access.writable(store, fact.scope, principal)
    if body.replacement:
        refuse_secrets(store, fact.scope, body.replacement)
    reason = redaction.mask(body.reason)
    return store.correct(
        fact.id, reason, body.replacement, actor=access.actor(principal), once=once
    )


def refuse_decided(principal: Principal, fact: Fact, doing: str) -> None:
    """Let pass unless an agent touches what a reviewer decided.

    Raises:
        Forbidden: it does.
    """
    if principal.type == "agent" and fact.review in _DECIDED:
        raise Forbidden(
            f"{principal.name} may not {doing} fact {fact.id}: its review is {fact.review};"
            " remember what you know instead, and a reviewer will see both"
        )


def visible(
    store: Store, principal: Principal, fact_id: str, *, known_at: datetime | None = None
) -> Fact:
    """Return a fact that the caller may see, by its id or by an alias (`alias:<ns>:<value>`).

    With `known_at`, as it was known then.

    A name that stands for several facts means the one in the nearest scope of the caller's own
    path.

    Raises:
        NotFound: there is none, or it is invisible; the two are not told apart.
        Conflict: a name stands for several facts, none of them on the caller's own path.
    """
    found = _named(store, principal, fact_id) if aliases.is_alias(fact_id) else fact_id
    fact = store.fact(found, principal.view, known_at) if found else None
    if fact is None:
        raise no_fact(fact_id)
    return fact


def no_fact(fact_id: str) -> NotFound:
    """Return the one refusal for facts that are not there and facts that are not visible."""
    return NotFound(f"fact {fact_id} does not exist or is not visible to you")


def _named(store: Store, principal: Principal, reference: str) -> str | None:
    name = aliases.parse(reference)
    found = dict(store.named(name, principal.view)) if name else {}
    near = next((found[path] for path in lineage(principal.home) if path in found), None)
    if near or not found:
        return near
    if len(found) > 1:
        raise Conflict(
            f"{reference} is the name of a fact in each of {', '.join(sorted(found))};"
            " give the id of the one you mean"
        )
    return next(iter(found.values()))


def run_refs(run: Run) -> tuple[Ref, ...]:
    """Return what a fact from a run points to: its mission, when it has one, and the run."""
    mission = Ref(type="mission", id=f"{run.namespace}/{run.mission}") if run.mission else None
    own = Ref(type="run", id=run.run_id)
    return (mission, own) if mission else (own,)


def _source(given: Source | None, run: Run | None, principal: Principal) -> Source:
    """Take the caller's word for the type and other references, never for the actor."""
    kind = "explicit_remember" if principal.type == "agent" else "user_input"
    if given is None and run is None:
        return _bare_source(kind, principal.name)
    source = given or Source(type=kind)
    named = (("mission", source.mission_id), ("experiment", source.experiment_id))
    others = tuple(Ref(type=t, id=i) for t, i in named if i)
    refs = run_refs(run) if run else ()
    if not (refs or source.refs or others):
        return _bare_source(source.type, principal.name)
    refs = facts.merge_refs(facts.merge_refs(refs, source.refs), others)
    return Source(type=source.type, refs=refs, actor=principal.name)


@functools.lru_cache(maxsize=4096)
def _bare_source(kind: Any, actor: str) -> Source:
    return Source(type=kind, actor=actor)
