"""Operations of several acts, and revisions: check every act, then queue one write.

An operation is done whole or not at all, and the undo of any fact that it changed reverts the whole
of it. Each act needs the rights that it needs on its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from knowledge_client.models import (
    Act,
    ActResult,
    FactChanges,
    LinkAct,
    OperationIn,
    OperationResult,
    ProblemViolation,
    RememberAct,
    RemoveAliasAct,
    RetractAct,
    ReviseAct,
    Revised,
    ReviseIn,
    SetAliasAct,
    UnlinkAct,
)
from knowledge_service.domain import facts, redaction
from knowledge_service.domain.facts import NewFact
from knowledge_service.domain.principals import Principal
from knowledge_service.errors import InvalidBody, ServiceError
from knowledge_service.ports import ActionContext
from knowledge_service.ports.operations import (
    LinkFacts,
    RemoveAlias,
    RetractFact,
    ReviseFact,
    SetAlias,
    StoreAct,
    StoreFact,
    UnlinkFacts,
    act_number,
)
from knowledge_service.use_cases import authorization, fact_lifecycle, fact_validation, links

if TYPE_CHECKING:
    from knowledge_service.ports import IdempotencyKey, Store
    from knowledge_service.use_cases.services import Services


@dataclass(frozen=True)
class Performer:
    """Performs operations of one caller for views such as the graph, which plan the acts.

    A view asks for the results of an earlier request with the same key before it plans, because
    the plan of a repeat would differ.
    """

    services: Services
    principal: Principal
    idempotency_key: IdempotencyKey | None = None

    @property
    def store(self) -> Store:
        """The store that is read and written."""
        return self.services.store

    def earlier_results(self) -> tuple[ActResult, ...] | None:
        """Return the results of the request with the same key, or None."""
        return self.store.performed(self.idempotency_key) if self.idempotency_key else None

    def perform(self, acts: Sequence[Act], reason: str) -> tuple[ActResult, ...]:
        """Charge the caller for the acts, and do all or none; without acts, only store the key.

        Raises:
            QuotaExceeded: the quota is used up.
            The errors of `perform`.
        """
        if not acts and self.idempotency_key is None:
            return ()
        charge(self.services, self.principal, acts)
        return perform_acts(self.store, self.principal, acts, reason, self.idempotency_key)


def charge(services: Services, principal: Principal, acts: Sequence[Act]) -> None:
    """Charge the caller one fact for each act that stores one, and one write for each other act.

    The request itself counts as one write already.

    Raises:
        QuotaExceeded: the quota is used up.
    """
    stored = sum(isinstance(act, RememberAct | ReviseAct) for act in acts)
    unstored_count = len(acts) - stored
    services.rate_limiter.take(
        principal, {"facts": stored, "writes": max(unstored_count - (0 if stored else 1), 0)}
    )


def perform(
    store: Store, principal: Principal, body: OperationIn, idempotency_key: IdempotencyKey | None
) -> OperationResult:
    """Do the acts of an operation in order, all or none.

    Raises:
        The errors of each act, with the number of the act.
        InvalidBody: an act refers to a later act, or to one that has no fact.
    """
    results = perform_acts(store, principal, body.acts, body.reason, idempotency_key)
    return OperationResult(results=results)


def perform_acts(
    store: Store,
    principal: Principal,
    acts: Sequence[Act],
    reason: str,
    idempotency_key: IdempotencyKey | None,
) -> tuple[ActResult, ...]:
    """Do acts in order, all or none; a repeat with the same key returns the first results.

    Raises:
        The errors of `perform`.
    """
    first = store.performed(idempotency_key) if idempotency_key else None
    if first is not None:
        return first
    _check_references(acts)
    prepared = _prepare(store, principal, acts)
    context = ActionContext(
        authorization.actor_of(principal),
        redaction.mask(reason),
        idempotency_key,
        fact_lifecycle.may_change(principal),
    )
    return store.perform(prepared, context)


def revise(
    store: Store,
    principal: Principal,
    fact_id: str,
    body: ReviseIn,
    idempotency_key: IdempotencyKey | None,
) -> Revised:
    """Replace a fact by a successor with other values.

    Raises:
        NotFound: the fact does not exist or is not visible.
        Forbidden, ScopeReadOnly: the caller may read the fact but not revise it.
        Conflict: the fact is closed, or nothing would change.
        InvalidBody, TooLarge, SecretRefused: the successor would break a limit or a gate.
    """
    act = _revision(store, principal, fact_id, _changes_of(body))
    context = ActionContext(
        authorization.actor_of(principal), redaction.mask(body.reason), idempotency_key
    )
    revised = store.revise(act.fact_id, act.changes, context)
    return revised.model_copy(update=fact_lifecycle.visible_copies(store, principal, revised))


def _prepare(store: Store, principal: Principal, acts: Sequence[Act]) -> list[StoreAct]:
    """Check every act, and complete it.

    The facts to remember are validated together, which shares lookups and the analysis of texts.
    """
    bodies = [act.fact for act in acts if isinstance(act, RememberAct)]
    new_facts = iter(fact_validation.prepare_facts(store, principal, bodies) if bodies else ())
    prepared: list[StoreAct] = []
    for number, act in enumerate(acts):
        try:
            prepared.append(_prepare_act(store, principal, act, new_facts))
        except ServiceError as error:
            error.detail = f"act {number}: {error.detail}"
            raise
    return prepared


def _prepare_act(
    store: Store, principal: Principal, act: Act, new_facts: Iterable[NewFact]
) -> StoreAct:
    match act:
        case RememberAct():
            return StoreFact(next(iter(new_facts)))
        case ReviseAct():
            return _revision(store, principal, act.fact, _changes_of(act.changes))
        case RetractAct():
            is_earlier = act_number(act.fact) is not None
            return RetractFact(
                act.fact
                if is_earlier
                else fact_lifecycle.check_change(store, principal, act.fact, "retract").id
            )
        case LinkAct():
            start_id, end_id = _ends(store, principal, act.link.from_, act.link.to)
            links.validate_link(act.link)
            return LinkFacts(links.new_link(act.link, start_id, end_id))
        case UnlinkAct():
            start_id, end_id = _ends(store, principal, act.from_, act.to)
            links.require_open_type(act.type)
            return UnlinkFacts(start_id, end_id, act.type)
        case SetAliasAct() | RemoveAliasAct():
            return _alias_change(store, principal, act)


def _alias_change(
    store: Store, principal: Principal, act: SetAliasAct | RemoveAliasAct
) -> SetAlias | RemoveAlias:
    fact_id = act.fact
    if act_number(fact_id) is None:
        fact_id = fact_lifecycle.check_change(store, principal, fact_id, "name").id
    if isinstance(act, RemoveAliasAct):
        return RemoveAlias(fact_id, act.alias)
    fact_validation.reject_secret_aliases((act.alias,))
    return SetAlias(fact_id, act.alias, act.move)


def _ends(store: Store, principal: Principal, from_: str, to: str) -> tuple[str, str]:
    start = from_ if act_number(from_) is not None else None
    end = to if act_number(to) is not None else None
    return (
        start or links.get_linkable_fact(store, principal, from_).id,
        end or links.get_end(store, principal, to).id,
    )


def _revision(
    store: Store, principal: Principal, reference: str, changes: Mapping[str, Any]
) -> ReviseFact:
    if act_number(reference) is not None:
        message = "a fact that this operation remembers cannot be revised in it"
        raise InvalidBody(message, (ProblemViolation(path="fact", message=message),))
    old = fact_lifecycle.check_change(store, principal, reference, "revise")
    fact_validation.reject_violations(facts.revision_violations(old, changes))
    new = facts.revision(old, changes, principal.name)
    if fact_validation.is_revision_masked(new, changes):
        fact_validation.reject_violations(new.violations)
        fact_validation.reject_secrets(store, old.scope)
    return ReviseFact(old.id, changes)


_NOT_NULL = ("content", "tags", "confidence")


def _changes_of(body: FactChanges) -> dict[str, Any]:
    """Return the changed fields by their stored names.

    Raises:
        InvalidBody: nothing would change, or a required value would be removed.
    """
    sent = body.model_fields_set & set(facts.REVISABLE)
    changes = {name: getattr(body, name) for name in sorted(sent)}
    missing = [name for name in _NOT_NULL if name in changes and changes[name] is None]
    if missing:
        raise InvalidBody(
            "a revision may not remove what every fact has",
            tuple(ProblemViolation(path=name, message="may not be null") for name in missing),
        )
    if not changes:
        raise InvalidBody(f"a revision names at least one of {', '.join(facts.REVISABLE)}")
    return {name: value if value != "" else None for name, value in changes.items()}


def _check_references(acts: Sequence[Act]) -> None:
    """Check that acts refer to the facts of earlier acts only.

    Raises:
        InvalidBody: one does not.
    """
    violations = tuple(
        ProblemViolation(path=f"acts[{number}].{path}", message=f"{reference} is no earlier act")
        for number, act in enumerate(acts)
        for path, reference in _references(act)
        if (referred := act_number(reference)) is not None and referred >= number
    )
    if violations:
        raise InvalidBody("an act refers to a later one", violations)


def _references(act: Act) -> tuple[tuple[str, str | None], ...]:
    match act:
        case RememberAct():
            return (("fact.about", act.fact.about),)
        case ReviseAct() | RetractAct():
            return (("fact", act.fact),)
        case LinkAct():
            return (("link.from", act.link.from_), ("link.to", act.link.to))
        case UnlinkAct():
            return (("from", act.from_), ("to", act.to))
        case SetAliasAct() | RemoveAliasAct():
            return (("fact", act.fact),)
