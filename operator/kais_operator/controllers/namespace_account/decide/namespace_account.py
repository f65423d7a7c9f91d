"""Every realm has an account that people's tools may use, and the store knows whose it is.

A realm is a namespace in which kais objects are. The decision makes the ServiceAccount `kais-user`
there and registers it: whoever may ask for its token reads, writes and reviews this realm's
knowledge, and no other's. And it takes back the settings of scopes that nobody declares any more: a
KnowledgeScope that retains its knowledge has no finalizer that could do so when it is deleted.
There is no status to write: the namespace is not ours.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from kais import labels, scopes, service_accounts
from kais_operator.planning.plan import Body, Create, Plan, PutScope, RegisterPrincipal
from knowledge_client import models

_RETRY_INTERVAL = timedelta(seconds=1)
"""After a creation: the account's UID is known only when it is read back."""


@dataclass(frozen=True)
class NamespaceAccountObserved:
    """A namespace as one look found it.

    Attributes:
        namespace: the realm's name.
        namespace_uid: which namespace of that name it is; a later namesake is another realm.
        account: the ServiceAccount `kais-user`, None while it is missing.
        is_registered: whether the store knows exactly the principal that this account is.
        undeclared: scopes of the realm that have settings in the store and no KnowledgeScope.
    """

    namespace: str
    namespace_uid: str
    account: Body | None
    is_registered: bool
    undeclared: frozenset[str] = frozenset()


def decide_namespace_account(observed: NamespaceAccountObserved, now: datetime) -> Plan:
    """Choose the writes that give a realm its account. Reads no clock."""
    del now  # nothing here depends on time; every decision has this shape
    plan = _account(observed)
    taken_back = tuple(PutScope(path, models.ScopeConfig()) for path in sorted(observed.undeclared))
    return replace(plan, actions=(*plan.actions, *taken_back))


def _account(observed: NamespaceAccountObserved) -> Plan:
    if observed.account is None:
        return Plan(
            (Create(service_accounts.realm_account(observed.namespace)),),
            requeue_after=_RETRY_INTERVAL,
        )
    if observed.is_registered or observed.account["metadata"].get("deletionTimestamp"):
        return Plan()
    principal = principal_of(
        observed.namespace,
        account_uid=observed.account["metadata"]["uid"],
        namespace_uid=observed.namespace_uid,
    )
    return Plan((RegisterPrincipal(principal),))


def principal_of(namespace: str, *, account_uid: str, namespace_uid: str) -> models.PrincipalIn:
    """Say who the realm's account is to the store: a person at home in the realm."""
    home = str(scopes.Scope(realm=namespace))
    grant = models.Grant(scope=home, subtree=True, verbs=("read", "write", "review", "promote"))
    return models.PrincipalIn(
        name=f"{namespace}/{labels.USER_ACCOUNT}",
        type="human",
        subject=models.Subject(
            username=f"system:serviceaccount:{namespace}:{labels.USER_ACCOUNT}", uid=account_uid
        ),
        home=home,
        grants=(grant,),
        realm_uid=namespace_uid,
    )
