"""Arms: which callers get no facts, because they work for a run without knowledge.

A run in the arm `off` or `holdout` gets no facts through any route. The operator records the arm of
a run: a cell cannot leave it by naming another run, or none. While such a run is open, the cells of
its formation get facts only with a ticket for a run in the arm `on`.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from knowledge_client.models import Run
from knowledge_service.domain.access_control import lineage, realm_of
from knowledge_service.domain.principals import Principal
from knowledge_service.errors import NotFound
from knowledge_service.use_cases import tickets

if TYPE_CHECKING:
    from knowledge_service.ports import Store


def require_facts(store: Store, principal: Principal) -> None:
    """Require that the caller works for no run without knowledge.

    Raises:
        NotFound: it works for one, to which no fact is accessible.
    """
    run = open_run_without_knowledge(store, principal)
    if run is not None:
        raise NotFound(
            f"no facts are accessible to {principal.name}: {reason(run.run_id, run.arm)}"
        )


def is_without_facts(store: Store, principal: Principal) -> bool:
    """Return whether the caller works for a run without knowledge."""
    return open_run_without_knowledge(store, principal) is not None


def reasons_for_recall(
    store: Store, principal: Principal, run: Run | None, ticket: str | None, *, now: datetime
) -> tuple[str, ...]:
    """Return the reasons why a recall gets no facts; empty if it gets facts.

    Args:
        store: where the runs are.
        principal: the caller itself, not the reader that it impersonates.
        run: the run that the recall names.
        ticket: the ticket under which the caller works.
        now: the time of the recall.

    Raises:
        TicketInvalid, TicketExpired, Forbidden: the ticket is no longer valid for the caller.
    """
    if run is not None and run.arm != "on":
        return (reason(run.run_id, run.arm),)
    if ticket is not None:
        run_id, arm = tickets.arm_of(store, principal, ticket, now=now)
        if arm != "on":
            return (reason(run_id, arm),)
        if run_id is not None:
            return ()
    open_run = open_run_without_knowledge(store, principal)
    if open_run is None:
        return ()
    text = reason(open_run.run_id, open_run.arm)
    if run is not None:
        text += f"; without a ticket, {principal.name} may work for it as well as for {run.run_id}"
    return (text,)


def open_run_without_knowledge(store: Store, principal: Principal) -> Run | None:
    """Return the first open run without knowledge that a cell may be working for."""
    if principal.type != "agent":
        return None
    runs = store.withheld_runs(realm_of(principal.home))
    if not runs:
        return None
    registration = store.principal(tickets.username_of(principal))
    if registration is not None and registration.type != "agent":
        return None  # a person's assistant works for no run
    if registration is not None and registration.address is not None:
        formation = registration.address.formation
        return next((run for run in runs if (run.formation or run.instance) == formation), None)
    return next((run for run in runs if _may_be_of(run, principal.home)), None)


def _may_be_of(run: Run, home: str) -> bool:
    """Return whether a run may be that of a cell whose formation is unknown.

    A run of an older operator names no formation. It can only be that of a cell whose home is the
    scope of the run.
    """
    return run.scope == home or (run.formation is not None and run.scope in lineage(home))


def reason(run_id: str | None, arm: str) -> str:
    """Say in which arm a run is."""
    subject = f"run {run_id}" if run_id is not None else "the call"
    return f"{subject} is in the arm {arm}, which gets no knowledge"
