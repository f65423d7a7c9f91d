"""Decide about the account of a realm for people's tools, and about scopes without a declaration.

A realm is a namespace with objects of kais. The decision creates the ServiceAccount `kais-user`
there and registers it: anyone who may request its token reads, writes and reviews the knowledge of
this realm, and of no other. The decision also resets the settings of scopes that are no
longer declared, because a KnowledgeScope that retains its knowledge has no finalizer that could
do so on deletion. There is no status to write: the namespace is not an object of kais.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from kais import labels, scopes, service_accounts
from kais_operator.planning.plan import Body, Create, Plan, PutScope, RegisterPrincipal
from knowledge_client import models

_RETRY_INTERVAL = timedelta(seconds=1)
"""Delay after a creation: the account's UID is known only when the account is read again."""


@dataclass(frozen=True)
class NamespaceAccountObserved:
    """The observed state of a namespace.

    Attributes:
        namespace: the realm's name.
        namespace_uid: UID of the namespace; a later one of the same name is another realm.
        account: the ServiceAccount `kais-user`; None while it is missing.
        is_registered: whether the knowledge service has exactly the principal of this account.
        undeclared: scopes of the realm with settings in the service but without a KnowledgeScope.
    """

    namespace: str
    namespace_uid: str
    account: Body | None
    is_registered: bool
    undeclared: frozenset[str] = frozenset()


def decide_namespace_account(observed: NamespaceAccountObserved, now: datetime) -> Plan:
    """Choose the writes that create and register a realm's account. Reads no clock."""
    del now  # the decision does not depend on time; all have the same signature
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
    """Build the registration of a realm's account: a person whose home is the realm."""
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
