"""What is remembered and corrected: what a scope and a limit refuse, and which fact is meant."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from knowledge_client.models import (
    ApprovalResult,
    CorrectIn,
    CorrectionResult,
    Fact,
    ProblemViolation,
    Ref,
    Remembered,
    Run,
)
from knowledge_service.domain import aliases, redaction
from knowledge_service.domain.access_control import Principal, View, lineage
from knowledge_service.domain.facts import NewFact
from knowledge_service.errors import (
    Conflict,
    Forbidden,
    InvalidBody,
    NotFound,
    SecretRefused,
    TooLarge,
)
from knowledge_service.use_cases import authorization

if TYPE_CHECKING:
    from knowledge_service.ports import Once, Store


_DECIDED = ("approved", "rejected")


def rehearse(
    store: Store, principal: Principal, facts: Sequence[NewFact]
) -> tuple[Remembered, ...]:
    """Tell what remembering would do; a fact that would be new has no id, because none is made.

    Raises:
        RetractedBefore: an equal fact was retracted there.
    """
    made = store.rehearse(facts, actor=authorization.actor(principal))
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


def refuse_beyond_limits(found: Sequence[str]) -> None:
    """Let pass what breaks no limit.

    Raises:
        TooLarge: the data is too large.
        InvalidBody: anything else, all violations at once.
    """
    if any(violation.startswith("data has") for violation in found):
        raise TooLarge("; ".join(found))
    if found:
        parts = [text.partition(" ") for text in found]
        violations = tuple(ProblemViolation(path=path, message=said) for path, _, said in parts)
        raise InvalidBody("the fact breaks limits", violations)


def correct(
    store: Store, principal: Principal, fact_id: str, body: CorrectIn, once: Once | None
) -> CorrectionResult:
    """Close a fact that the caller may write to.

    Raises:
        NotFound: there is none that the caller may see.
        Forbidden: it may be seen, not corrected.
    """
    fact = changeable(store, principal, fact_id)
    if not principal.may("write", fact.scope):
        raise Forbidden(f"{principal.name} may read fact {fact_id} but not correct it")
    refuse_decided(principal, fact, "correct")
    authorization.writable(store, fact.scope, principal)
    if body.replacement:
        refuse_secrets(store, fact.scope, body.replacement)
    reason = redaction.mask(body.reason)
    done = store.correct(
        fact.id, reason, body.replacement, actor=authorization.actor(principal), once=once
    )
    return done.model_copy(update=visible_copies(store, principal, done))


def visible_copies(
    store: Store, principal: Principal, done: CorrectionResult | ApprovalResult
) -> dict[str, tuple[str, ...]]:
    """Return the copies that an answer names, without those that the caller may not read."""
    copies = {"copies_retracted": done.copies_retracted, "copies_flagged": done.copies_flagged}
    return {
        name: tuple(each for each in ids if store.fact(each, principal.view))
        for name, ids in copies.items()
    }


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
    fact = _found(store, principal, fact_id, principal.view, known_at)
    if fact is None:
        raise no_fact(fact_id)
    return fact


def resolved(store: Store, principal: Principal, reference: str) -> str:
    """Return the id that an alias stands for; whatever else was given, or names nothing, as it is.

    Raises:
        Conflict: a name stands for several facts, none of them on the caller's own path.
    """
    if not aliases.is_alias(reference):
        return reference
    return _named(store, principal, reference, principal.view) or reference


def changeable(store: Store, principal: Principal, fact_id: str, *, drafts: bool = False) -> Fact:
    """Return a fact that the caller may see, or one of its own that it does not see any more.

    An agent sees no draft, but may correct or take back the one that it wrote. With `drafts`, also
    those of others in its sight.

    Raises:
        NotFound, Conflict: as `visible`.
    """
    view = dataclasses.replace(principal.view, drafts=True)
    fact = _found(store, principal, fact_id, view, None)
    if fact is None:
        raise no_fact(fact_id)
    is_own = fact.source.actor == principal.name
    if not (drafts or is_own or principal.view.shows(fact.scope, fact.review)):
        raise no_fact(fact_id)
    return fact


def _found(
    store: Store, principal: Principal, fact_id: str, view: View, known_at: datetime | None
) -> Fact | None:
    is_alias = aliases.is_alias(fact_id)
    found = _named(store, principal, fact_id, view) if is_alias else fact_id
    return store.fact(found, view, known_at) if found else None


def no_fact(fact_id: str) -> NotFound:
    """Return the one refusal for facts that are not there and facts that are not visible."""
    return NotFound(f"fact {fact_id} does not exist or is not visible to you")


def _named(store: Store, principal: Principal, reference: str, view: View) -> str | None:
    name = aliases.parse(reference)
    found = dict(store.named(name, view)) if name else {}
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
