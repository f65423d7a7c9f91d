from datetime import UTC, datetime

import pytest

from kais_operator.controllers.namespace_account.decide import namespace_account
from kais_operator.planning.plan import Create, RegisterPrincipal

NOW = datetime(2030, 1, 1, tzinfo=UTC)
ACCOUNT = {"kind": "ServiceAccount", "metadata": {"name": "kais-user", "uid": "account-uid"}}


def observed(**over: object) -> namespace_account.NamespaceAccountObserved:
    seen = {"namespace": "demo", "namespace_uid": "ns-uid", "account": ACCOUNT}
    return namespace_account.NamespaceAccountObserved(**{"is_registered": False, **seen, **over})


def test_a_realm_without_account_is_given_one_that_mounts_no_token() -> None:
    plan = namespace_account.decide_namespace_account(observed(account=None), NOW)
    (action,) = plan.actions
    assert isinstance(action, Create)
    assert action.body["metadata"]["name"] == "kais-user"
    assert action.body["metadata"]["labels"] == {"app.kubernetes.io/managed-by": "kais"}
    assert action.body["automountServiceAccountToken"] is False
    assert plan.requeue_after is not None


def test_the_account_is_registered_as_a_person_at_home_in_the_realm() -> None:
    (action,) = namespace_account.decide_namespace_account(observed(), NOW).actions
    assert isinstance(action, RegisterPrincipal)
    principal = action.principal
    assert (principal.name, principal.type) == ("demo/kais-user", "human")
    assert principal.subject.username == "system:serviceaccount:demo:kais-user"
    assert principal.subject.uid == "account-uid"
    assert (principal.home, principal.realm_uid) == ("realm:demo", "ns-uid")
    (grant,) = principal.grants
    assert (grant.scope, grant.subtree) == ("realm:demo", True)
    assert set(grant.verbs) == {"read", "write", "review", "promote"}


@pytest.mark.parametrize(
    "over",
    [
        pytest.param({"is_registered": True}, id="the store knows the account already"),
        pytest.param(
            {"account": {"metadata": {**ACCOUNT["metadata"], "deletionTimestamp": "now"}}},
            id="the account is going away",
        ),
    ],
)
def test_nothing_is_to_do_when(over: dict[str, object]) -> None:
    assert namespace_account.decide_namespace_account(observed(**over), NOW).actions == ()
