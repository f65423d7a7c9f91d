"""What a Cell needs: an account, a place in the store, and a word about whether it can work.

A task cell has no pod between missions. It is ready when its account is there: the pods come with
the attempts of a Mission. A store that is away does not keep a cell from being ready.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from kais import conditions, labels
from kais.conditions import Condition, Type, Wanted
from kais.reasons import Reason
from kais.resources.cell import Cell, CellDisplay, CellPhase, CellStatus
from kais.resources.workload import CellMode, CellTemplateSpec
from kais_operator.decide import children, environment, placing, pods, saying
from kais_operator.decide.children import Parent
from kais_operator.decide.placing import Housed
from kais_operator.decide.plan import Action, Body, Plan, RegisterPrincipal
from knowledge_client import models

LOOK_AGAIN = timedelta(seconds=30)
"""When an account that may not be borrowed is looked at again: nothing tells of other people's."""
LOOK_LATER = timedelta(minutes=5)
"""When one that may be is: its leave may be taken back, or it be made anew with another UID."""

UNSUPPORTED = (
    "this version runs cells of your own image in mode Task; give the cell spec.container and "
    "mode: Task instead of {what}"
)


@dataclass(frozen=True)
class CellObserved:
    """A Cell as one look found it.

    Attributes:
        housed: the object, with the Formation that it names.
        account: the ServiceAccount under the name that its pods would use.
        sharing: the other cells that run under the same borrowed account.
        realm_uid: UID of the namespace.
        is_registered: whether the store was told exactly what would be told now.
        store_problem: why the store last did not answer; None since it did.
    """

    housed: Housed
    account: Body | None
    sharing: Sequence[Housed] = ()
    realm_uid: str = ""
    is_registered: bool = False
    store_problem: str | None = None

    @property
    def cell(self) -> Cell:
        """The object decided upon."""
        return self.housed.cell


@dataclass(frozen=True)
class _Account:
    """What follows from the account: writes, and trouble in words."""

    actions: tuple[Action, ...] = ()
    uid: str | None = None
    reason: Reason | None = None
    message: str = ""
    requeue_after: timedelta | None = None


def decide_cell(observed: CellObserved, now: datetime) -> Plan:
    """Choose the writes that let a cell work, and say whether it can. Reads no clock."""
    cell = observed.cell
    if cell.is_deleting:
        return Plan()
    unsupported = not_supported(cell.spec)
    if unsupported is not None:
        types = (Type.APPLIED, Type.POD_READY, Type.REGISTERED, Type.READY)
        said = [conditions.false(t, Reason.NOT_YET_SUPPORTED, unsupported) for t in types]
        return _plan(observed, said, now)
    account = _borrowed(observed) if cell.spec.service_account_name else _own(observed)
    if account.reason is not None:
        applied = conditions.false(Type.APPLIED, account.reason, account.message)
        return _plan(observed, _not_applied(applied), now, account=account)
    return _plan(observed, _standing_by(observed, account), now, account=account)


def not_supported(spec: CellTemplateSpec) -> str | None:
    """Say what to use instead of a kind of cell that this version cannot run; None for others."""
    if spec.mind is not None:
        return UNSUPPORTED.format(what="spec.mind")
    if spec.effective_mode is not CellMode.TASK:
        return UNSUPPORTED.format(what="mode: Service")
    return None


def account_problem(cell: Cell, account: Body | None) -> str | None:
    """Say why a cell may not run under the account that it names; None when it may."""
    namespace, name = cell.metadata.namespace, placing.account_name(cell)
    if account is None:
        return f"ServiceAccount {namespace}/{name} does not exist; create it, annotated {_ALLOWED}"
    given = (account["metadata"].get("annotations") or {}).get(labels.ALLOW_CELLS)
    if given != "true":
        return (
            f"ServiceAccount {namespace}/{name} may not be used by cells; its owner can allow it "
            f"with the annotation {_ALLOWED}"
        )
    return None


_ALLOWED = f'{labels.ALLOW_CELLS}: "true"'


def parent_of(cell: Cell) -> Parent:
    """Give the Cell as the parent of its children."""
    metadata = cell.metadata
    return Parent(cell.api_version, cell.kind, metadata.namespace, metadata.name, metadata.uid)


def _own(observed: CellObserved) -> _Account:
    cell = observed.cell
    if cell.metadata.name == labels.USER_ACCOUNT:
        words = f"ServiceAccount {labels.USER_ACCOUNT} is for people's tools; name the cell"
        return _Account(reason=Reason.NAME_TAKEN, message=f"{words} otherwise")
    parent = parent_of(cell)
    desired = children.child_body(
        parent,
        api_version="v1",
        kind="ServiceAccount",
        name=placing.account_name(cell),
        labelled=pods.cell_labels(cell),
        content={"automountServiceAccountToken": False},
    )
    found = children.decide_child(desired, observed.account, parent)
    is_ours = found.standing is children.Standing.OURS and observed.account is not None
    uid = observed.account["metadata"]["uid"] if is_ours and observed.account else None
    return _Account(found.actions, uid, found.reason, found.message, found.requeue_after)


def _borrowed(observed: CellObserved) -> _Account:
    problem = account_problem(observed.cell, observed.account)
    if problem is not None or observed.account is None:
        return _Account(
            reason=Reason.ACCOUNT_NOT_ALLOWED, message=problem or "", requeue_after=LOOK_AGAIN
        )
    return _Account(uid=observed.account["metadata"]["uid"], requeue_after=LOOK_LATER)


def _not_applied(applied: Wanted) -> list[Wanted]:
    return [
        applied,
        conditions.false(Type.POD_READY, applied.reason, applied.message),
        conditions.false(
            Type.REGISTERED, Reason.NOT_REGISTERED, "the cell has no account to register yet"
        ),
        conditions.false(Type.READY, applied.reason, applied.message),
    ]


def _standing_by(observed: CellObserved, account: _Account) -> list[Wanted]:
    cell = observed.cell
    who = placing.identity(observed.housed, sharing=observed.sharing)
    name = f"ServiceAccount {cell.metadata.namespace}/{who.account}"
    words = " ".join(["a task cell: its pod is made when a mission asks", *remarks(cell.spec)])
    return [
        conditions.true(Type.APPLIED, Reason.APPLIED, f"{name} is there"),
        conditions.true(Type.POD_READY, Reason.STANDBY, "no pod is needed between missions"),
        _registered(observed, home=str(who.scope), account=account),
        conditions.true(Type.READY, Reason.STANDBY, words),
    ]


def _registered(observed: CellObserved, *, home: str, account: _Account) -> Wanted:
    if account.uid is not None and observed.is_registered:
        words = f"the knowledge service knows the cell, at home in {home}"
        return conditions.true(Type.REGISTERED, Reason.REGISTERED, words)
    if observed.store_problem is not None:
        return conditions.false(
            Type.REGISTERED,
            Reason.STORE_UNAVAILABLE,
            f"{observed.store_problem}; the cell works without knowledge until it answers",
        )
    return conditions.false(
        Type.REGISTERED, Reason.NOT_REGISTERED, f"the cell is being registered at {home}"
    )


def remarks(spec: CellTemplateSpec) -> list[str]:
    """Name what the spec says and this kind of cell has no use for."""
    unused = []
    if spec.tools:
        names = ", ".join(tool.name for tool in spec.tools)
        unused.append(f"tools ({names}) are for cells with a mind")
    own = spec.container.env if spec.container else []
    reserved = [variable.name for variable in own if environment.is_reserved(variable.name)]
    if reserved:
        unused.append(f"variables {', '.join(reserved)} belong to kais")
    limits = spec.resources
    money = limits and (limits.max_cost_per_hour, limits.max_total_cost, limits.max_tokens_per_turn)
    if money and any(limit is not None for limit in money):
        unused.append("limits of money and tokens are for cells with a mind")
    return [f"(ignored: {'; '.join(unused)})"] if unused else []


def _registrations(observed: CellObserved, account: _Account) -> tuple[Action, ...]:
    if account.uid is None or observed.is_registered:
        return ()
    return (RegisterPrincipal(principal_for(observed, account_uid=account.uid)),)


def principal_for(observed: CellObserved, *, account_uid: str) -> models.PrincipalIn:
    """Make the registration that this look asks for."""
    who = placing.identity(observed.housed, sharing=observed.sharing)
    return placing.principal(
        observed.cell, who, account_uid=account_uid, realm_uid=observed.realm_uid
    )


def _shown(ready: Condition) -> str:
    """Say in a word where a cell stands; its phase has none for a cell that stands by."""
    return Reason.STANDBY if ready.status == "True" else CellPhase.PENDING


def _plan(
    observed: CellObserved, said: list[Wanted], now: datetime, *, account: _Account | None = None
) -> Plan:
    cell = observed.cell
    told = saying.timed(cell, said, now)
    image = cell.spec.container.image if cell.spec.container else None
    model = cell.spec.mind.model if cell.spec.mind else image
    status = CellStatus(
        observed_generation=cell.metadata.generation,
        conditions=told,
        phase=CellPhase.PENDING,
        message=said[-1].message,
        display=CellDisplay(status=_shown(told[-1]), model=model),
    )
    actions: tuple[Action, ...] = ()
    if account is not None:
        actions = (*account.actions, *_registrations(observed, account))
    return Plan(
        (*actions, *saying.events(cell, told, types=(Type.READY,))),
        saying.body_of(status),
        account.requeue_after if account else None,
    )
