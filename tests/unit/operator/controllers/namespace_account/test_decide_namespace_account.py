"""What is decided about a namespace's account, case by case."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kais import service_accounts
from kais_operator.controllers.namespace_account.decide import namespace_account
from kais_operator.controllers.namespace_account.decide.namespace_account import (
    NamespaceAccountObserved,
)
from tests.fakes.decisions import NOW, PlanSummary, stored, summarize

ACCOUNT = stored(service_accounts.realm_account("demo"))
DELETING = stored(ACCOUNT, deletionTimestamp=NOW.isoformat())
OBSERVED = NamespaceAccountObserved("demo", "uid-demo", ACCOUNT, is_registered=True)
MISSING = replace(OBSERVED, account=None, is_registered=False)
TEAM, REALM = "realm:demo/formation:team", "realm:demo"

CASES: dict[str, tuple[NamespaceAccountObserved, PlanSummary]] = {
    "an account that the store knows is left alone": (OBSERVED, PlanSummary()),
    "a missing account is created, and its UID is read soon": (
        MISSING,
        PlanSummary(("Create ServiceAccount/kais-user",), requeue_s=1),
    ),
    "a missing account is created although the store knows one": (
        replace(OBSERVED, account=None),
        PlanSummary(("Create ServiceAccount/kais-user",), requeue_s=1),
    ),
    "an account that the store does not know is registered": (
        replace(OBSERVED, is_registered=False),
        PlanSummary(("RegisterPrincipal demo/kais-user",)),
    ),
    "an account that is being deleted is not registered": (
        replace(OBSERVED, account=DELETING, is_registered=False),
        PlanSummary(),
    ),
    "settings of a scope that nobody declares are taken back": (
        replace(OBSERVED, undeclared=frozenset({TEAM})),
        PlanSummary((f"PutScope {TEAM}",)),
    ),
    "settings of several scopes are taken back in the order of their paths": (
        replace(OBSERVED, undeclared=frozenset({TEAM, REALM})),
        PlanSummary((f"PutScope {REALM}", f"PutScope {TEAM}")),
    ),
    "the account is created before settings are taken back": (
        replace(MISSING, undeclared=frozenset({TEAM})),
        PlanSummary(("Create ServiceAccount/kais-user", f"PutScope {TEAM}"), requeue_s=1),
    ),
    "settings are taken back while the account is being deleted": (
        replace(OBSERVED, account=DELETING, undeclared=frozenset({TEAM})),
        PlanSummary((f"PutScope {TEAM}",)),
    ),
}


@pytest.mark.parametrize(("observed", "expected"), CASES.values(), ids=CASES)
def test_a_namespace_account(observed: NamespaceAccountObserved, expected: PlanSummary) -> None:
    assert summarize(namespace_account.decide_namespace_account(observed, NOW)) == expected
