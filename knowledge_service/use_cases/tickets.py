"""Tickets: who may speak to a cell, and how the cell learns who speaks.

caller, with its own token -> ticket for one callee, 60 s -> callee, with its own token -> caller

The operator may speak to every cell, a cell to its peers in the topology of its formation, and a
person to the cells in whose scope it may write. No token of a ServiceAccount goes to another cell.
A ticket is encrypted under a key of its own, and nothing is stored.
"""

from __future__ import annotations

import re
import secrets
from datetime import datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING

import pydantic

from knowledge_client.base_model import UtcDatetime, WireModel
from knowledge_client.models import (
    Arm,
    CallerRole,
    CellAddress,
    PrincipalIn,
    ProblemViolation,
    Run,
    Ticket,
    TicketIn,
    VerifiedTicket,
)
from knowledge_service.domain.access_control import EVERYTHING, PLATFORM, realm_of
from knowledge_service.domain.cursor_encryption import CursorCipher, InvalidCursor
from knowledge_service.domain.principals import Principal
from knowledge_service.domain.run_reports import RunKey
from knowledge_service.errors import (
    CallLoop,
    Forbidden,
    InvalidBody,
    NotFound,
    TicketExpired,
    TicketInvalid,
)
from knowledge_service.use_cases import authorization

if TYPE_CHECKING:
    from knowledge_service.ports import Store

LIFETIME = timedelta(seconds=60)
_WORK_WITHOUT_RUN = timedelta(days=1)
"""Time after which a cell makes no more calls for a person, or for a run without a record."""
MAX_HOPS = 4
"""The maximum number of cells that a call may pass before it reaches the callee."""
_PURPOSE = "peers/ticket/v1"
_MAX_LENGTH = 8192  # characters of a ticket: four hops with the longest names take half of it
_ACCOUNT = re.compile(r"system:serviceaccount:([^:]+):(.+)", re.DOTALL)


class _Content(WireModel):
    """The content of a ticket; `callee` is a username, `callee_uid` the UID of the account."""

    caller: str
    role: CallerRole
    cell: str | None = None
    callee: str
    callee_uid: str | None = None
    run_id: str | None = None
    attempt: int = 1
    arm: Arm = "on"
    hops: tuple[str, ...] = ()
    budget_left: str | None = None
    expires_at: UtcDatetime


def issue(store: Store, principal: Principal, call: TicketIn, *, now: datetime) -> Ticket:
    """Return a ticket for one call.

    Raises:
        Forbidden: the caller may not speak to the callee.
        ScopeForbidden: the callee is a cell of a namespace out of the caller's reach.
        NotFound: the callee or the run is not registered, or not accessible.
        CallLoop: the callee waits for the caller.
        TicketInvalid: the ticket under which the caller works was not issued to it.
        TicketExpired: it expired a day ago, and no run bounds the work.
        InvalidBody: the call of a cell has neither a ticket nor a run.
    """
    if principal.type == "agent":
        content = _cell_content(store, principal, call, now)
    elif principal.type == "system" and principal.administers_all_below(PLATFORM):
        content = _operator_content(store, principal, call, now)
    elif principal.type == "human":
        content = _person_content(store, principal, call, now)
    else:
        raise Forbidden(
            f"{principal.name} may not speak to cells: only the operator, cells and people may"
        )
    text = content.model_dump_json(exclude_none=True)
    ticket = _cipher(store).encrypt(text, secrets.token_bytes(12))
    return Ticket(ticket=ticket, expires_at=content.expires_at)


def verify(store: Store, principal: Principal, ticket: str, *, now: datetime) -> VerifiedTicket:
    """Return the caller of `principal`, who must be the callee that the ticket was issued for.

    Raises:
        TicketInvalid: this service did not issue it.
        TicketExpired: its time is over.
        Forbidden: it is for another callee.
    """
    content = _open(store, ticket)
    _require_callee(content, principal)
    if now >= content.expires_at:
        raise TicketExpired(
            f"the ticket expired at {content.expires_at.isoformat()}; the caller needs a new one"
        )
    return VerifiedTicket.model_validate(content.model_dump(exclude={"callee", "callee_uid"}))


def arm_of(
    store: Store, principal: Principal, ticket: str, *, now: datetime
) -> tuple[str | None, Arm]:
    """Return the run and the arm for which a cell was called.

    Raises:
        TicketInvalid: this service did not issue the ticket.
        Forbidden: it is for another cell, or its run is over.
        TicketExpired: it expired a day ago, and no run bounds the work.
    """
    content = _open(store, ticket)
    _require_callee(content, principal)
    run = _run(store, principal, TicketIn(to=principal.name), content, now)
    return content.run_id, _arm(content.arm, run)


def _arm(stated: Arm | None, run: Run | None) -> Arm:
    """Return the arm without knowledge if the run or its ticket has one."""
    recorded = run.arm if run is not None else "on"
    return recorded if recorded != "on" else stated or "on"


def _operator_content(
    store: Store, principal: Principal, call: TicketIn, now: datetime
) -> _Content:
    callee = store.principal(call.to)
    if callee is None:
        raise _not_registered(call.to)
    return _Content(
        caller=principal.name,
        role="operator",
        callee=callee.subject.username,
        callee_uid=callee.subject.uid,
        run_id=call.run_id,
        attempt=call.attempt,
        arm=_arm(call.arm, _recorded_run(store, call.run_id, callee.home)),
        budget_left=call.budget_left,
        expires_at=now + LIFETIME,
    )


def _person_content(store: Store, principal: Principal, call: TicketIn, now: datetime) -> _Content:
    if call.run_id is not None or call.ticket is not None or call.arm is not None:
        raise InvalidBody(
            "a person speaks for itself: leave out run_id, ticket and arm",
            (ProblemViolation(path="to", message="is all that a person names"),),
        )
    callee = store.principal(call.to)
    if callee is None or not principal.view.can_read(callee.home):
        raise _not_registered(call.to)
    authorization.require_verb(principal, "write", callee.home)
    return _Content(
        caller=principal.name,
        role="person",
        callee=callee.subject.username,
        callee_uid=callee.subject.uid,
        budget_left=call.budget_left,
        expires_at=now + LIFETIME,
    )


def _cell_content(store: Store, principal: Principal, call: TicketIn, now: datetime) -> _Content:
    address = _address_of(store, principal)
    callee = _peer(store, principal, address, call.to)
    parent = None
    if call.ticket is not None:
        parent = _open(store, call.ticket)
        _require_callee(parent, principal)
    run = _run(store, principal, call, parent, now)
    hops = (*(parent.hops if parent else ()), principal.name)
    if callee.name in hops:
        raise CallLoop(
            f"{callee.name} waits for the answer to this call ({' > '.join(hops)});"
            " answer with what you know instead"
        )
    if len(hops) > MAX_HOPS:
        raise Forbidden(
            f"the call has passed {len(hops)} cells ({' > '.join(hops)}), at most {MAX_HOPS} are"
            " allowed; answer with what you know instead"
        )
    return _Content(
        caller=principal.name,
        role="cell",
        cell=address.cell,
        callee=callee.subject.username,
        callee_uid=callee.subject.uid,
        run_id=parent.run_id if parent else call.run_id,
        attempt=parent.attempt if parent else call.attempt,
        arm=_arm(parent.arm if parent else None, run),
        hops=hops,
        budget_left=_least(call.budget_left, parent.budget_left if parent else None),
        expires_at=now + LIFETIME,
    )


def _recorded_run(store: Store, run_id: str | None, home: str) -> Run | None:
    if run_id is None or realm_of(home) == PLATFORM:
        return None
    return store.run(RunKey(realm_of(home), run_id), EVERYTHING)


def _address_of(store: Store, principal: Principal) -> CellAddress:
    registration = store.principal(username_of(principal))
    if registration is None or registration.address is None:
        raise Forbidden(
            f"{principal.name} is the account of no single cell of a formation, so no topology"
            " allows it to speak to a cell"
        )
    return registration.address


def _peer(store: Store, principal: Principal, address: CellAddress, name: str) -> PrincipalIn:
    """Return the registration of a peer.

    Raises:
        Forbidden: the topology does not allow the call.
        CallLoop: the cell calls itself.
        NotFound: the topology allows the call, but the cell is not registered.
    """
    realm = realm_of(principal.home)
    account = _ACCOUNT.fullmatch(name)
    if account is not None and f"realm:{account[1]}" != realm:
        raise Forbidden(
            f"{principal.name} may not speak to {name}: it is an account of another namespace"
        )
    registered = (
        store.principal(name)
        if account is not None
        else store.principal_of_cell(realm, address.formation, name)
    )
    peer_address = registered.address if registered else None
    if account is not None and (
        peer_address is None or peer_address.formation != address.formation
    ):
        raise Forbidden(
            f"{principal.name} may not speak to {name}: it is no cell of formation"
            f" {address.formation}"
        )
    cell = peer_address.cell if peer_address else name
    if cell == address.cell:
        raise CallLoop(f"{principal.name} calls itself; answer with what you know instead")
    if not _is_peer(cell, address):
        raise Forbidden(
            f"{principal.name} may not speak to {cell}: the topology of formation"
            f" {address.formation} has no route from {address.cell} to it"
        )
    if registered is None:
        raise _not_registered(cell)
    return registered


def _is_peer(cell: str, address: CellAddress) -> bool:
    template, _, index = cell.rpartition("-")
    is_replica = index.isascii() and index.isdecimal()
    return cell in address.peers or (is_replica and f"{template}-*" in address.peers)


def _run(
    store: Store, principal: Principal, call: TicketIn, parent: _Content | None, now: datetime
) -> Run | None:
    """Return the run that a cell works for; None if a person called it, or the run is not open yet.

    Raises:
        InvalidBody: neither the ticket nor the body names it, or they differ.
        NotFound: it is not a run of the caller's formation.
        Forbidden: it is over.
        TicketExpired: no run bounds the work under the ticket, and it expired a day ago.
    """
    if parent is None and call.run_id is None:
        raise InvalidBody(
            "name the ticket under which the cell was called, or the run_id that it works for",
            (ProblemViolation(path="run_id", message="is missing, as is ticket"),),
        )
    if parent is not None and call.run_id not in (None, parent.run_id):
        raise InvalidBody(
            "run_id is not the run of the ticket",
            (ProblemViolation(path="run_id", message="leave it out beside ticket"),),
        )
    run_id = parent.run_id if parent else call.run_id
    if run_id is None:
        _require_recent(parent, now)
        return None
    try:
        run = authorization.authorized_run(store, run_id, principal)
    except NotFound:
        if parent is not None:
            _require_recent(parent, now)
            return None  # the operator opens it when the service is back
        raise
    if run.closed_at is not None:
        raise Forbidden(f"run {run_id} is over, so its cells make no further calls")
    return run


def _require_recent(parent: _Content | None, now: datetime) -> None:
    """Require that work which no run bounds is younger than a day."""
    if parent is not None and now >= parent.expires_at + _WORK_WITHOUT_RUN:
        raise TicketExpired(
            f"the ticket expired at {parent.expires_at.isoformat()}, more than a day ago, and no"
            " open run needs it; answer with what you know instead"
        )


def _least(*amounts: str | None) -> str | None:
    stated = [amount for amount in amounts if amount is not None]
    return min(stated, key=Decimal) if stated else None


def _open(store: Store, ticket: str) -> _Content:
    try:
        return _Content.model_validate_json(_cipher(store).decrypt(ticket))
    except (InvalidCursor, pydantic.ValidationError) as exc:
        raise TicketInvalid("this service did not issue the ticket") from exc


def _require_callee(content: _Content, principal: Principal) -> None:
    """Require that the principal is the account that a ticket was issued for.

    An account that was created again has another UID, and tickets for its predecessor are not valid
    for it.

    Raises:
        Forbidden: it is another account.
    """
    subject = principal.subject or principal.name
    expected = f"{content.callee} {content.callee_uid}" if content.callee_uid else content.callee
    is_callee = subject == expected or (
        content.callee_uid is None and subject.partition(" ")[0] == content.callee
    )
    if not is_callee:
        raise Forbidden(f"the ticket is for another cell than {principal.name}")


def username_of(principal: Principal) -> str:
    """Return the name under which an account is registered; its subject may add its UID."""
    return principal.subject.partition(" ")[0] or principal.name


def _not_registered(name: str) -> NotFound:
    return NotFound(f"{name} is not registered, or not a cell that you may speak to")


def _cipher(store: Store) -> CursorCipher:
    return CursorCipher(store.encryption_key(), _PURPOSE, max_length=_MAX_LENGTH)
