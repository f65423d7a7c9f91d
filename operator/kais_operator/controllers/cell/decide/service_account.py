"""The ServiceAccount of a cell's pods: created for the cell, or borrowed with permission."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from kais import labels
from kais.reasons import Reason
from kais.resources.cell import Cell
from kais_operator.controllers.cell.decide import base_pod_spec, cell_identity
from kais_operator.planning import children
from kais_operator.planning.children import Parent
from kais_operator.planning.plan import Action, Body

NOT_ALLOWED_RETRY_INTERVAL = timedelta(seconds=30)
"""How often an account that may not be borrowed is read again, if no watch reports a change."""
ALLOWED_RECHECK_INTERVAL = timedelta(minutes=5)
"""How often a borrowed account is read again; the watch may miss that permission is withdrawn."""
_ALLOWED = f'{labels.ALLOW_CELLS}: "true"'


@dataclass(frozen=True)
class Account:
    """The decision about an account: writes, and a problem with its message."""

    actions: tuple[Action, ...] = ()
    uid: str | None = None
    reason: Reason | None = None
    message: str = ""
    requeue_after: timedelta | None = None


def decide_account(cell: Cell, live: Body | None, parent: Parent) -> Account:
    """Decide about the account with the name that the cell's pods use."""
    if cell.spec.service_account_name:
        return _borrowed_account(cell, live)
    return _own_account(cell, live, parent)


def account_problem(cell: Cell, account: Body | None) -> str | None:
    """Return why a cell may not use the account that it names; None when it may."""
    namespace, name = cell.metadata.namespace, cell_identity.account_name(cell)
    if account is None:
        return f"ServiceAccount {namespace}/{name} does not exist; create it, annotated {_ALLOWED}"
    annotation = (account["metadata"].get("annotations") or {}).get(labels.ALLOW_CELLS)
    if annotation != "true":
        return (
            f"ServiceAccount {namespace}/{name} may not be used by cells; its owner can allow it "
            f"with the annotation {_ALLOWED}"
        )
    return None


def _own_account(cell: Cell, live: Body | None, parent: Parent) -> Account:
    if cell.metadata.name == labels.USER_ACCOUNT:
        message = f"ServiceAccount {labels.USER_ACCOUNT} is for people's tools; name the cell"
        return Account(reason=Reason.NAME_TAKEN, message=f"{message} otherwise")
    desired = children.child_body(
        parent,
        api_version="v1",
        kind="ServiceAccount",
        name=cell_identity.account_name(cell),
        labelled=base_pod_spec.cell_labels(cell),
        content={"automountServiceAccountToken": False},
    )
    child = children.decide_child(desired, live, parent)
    is_owned = child.ownership is children.Ownership.OWNED and live is not None
    uid = live["metadata"]["uid"] if is_owned and live else None
    return Account(child.actions, uid, child.reason, child.message, child.requeue_after)


def _borrowed_account(cell: Cell, live: Body | None) -> Account:
    problem = account_problem(cell, live)
    if problem is not None or live is None:
        return Account(
            reason=Reason.ACCOUNT_NOT_ALLOWED,
            message=problem or "",
            requeue_after=NOT_ALLOWED_RETRY_INTERVAL,
        )
    return Account(uid=live["metadata"]["uid"], requeue_after=ALLOWED_RECHECK_INTERVAL)
