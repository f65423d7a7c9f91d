"""Which requests of the audit log break the rest of a namespace's objects."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from e2e.support import audit
from kais_operator.controllers.outbox.decide import outbox

HOME, OWN, OTHER = "kais-system", "at-rest-1a2b3c", "missions-4d5e6f"
OWN_UID, OTHER_UID = "11111111-aaaa-4bbb-8ccc-000000000001", "99999999-aaaa-4bbb-8ccc-000000000009"
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


def entry(
    resource: str, namespace: str | None, name: str, *, verb: str = "patch", second: float = 0
) -> dict[str, Any]:
    return {
        "verb": verb,
        "user": {"username": f"system:serviceaccount:{HOME}:kais-operator"},
        "requestReceivedTimestamp": (BEGIN + timedelta(seconds=second)).isoformat(),
        "objectRef": {"resource": resource, "namespace": namespace, "name": name},
    }


def outbox_of(namespace: str, run_id: str) -> str:
    return outbox.name_of(outbox.key_of(namespace, run_id))


def listed(*entries: dict[str, Any]) -> list[str]:
    return audit.writes_about(entries, OWN, uids={OWN_UID})


@pytest.mark.parametrize(
    "log_entry",
    [
        pytest.param(entry("missions", OWN, "used"), id="an object of the namespace"),
        pytest.param(entry("configmaps", HOME, outbox_of(OWN, OWN_UID)), id="an outbox of its run"),
        pytest.param(
            entry("configmaps", HOME, outbox_of(OWN, "renamed-run")),
            id="an outbox of its namespace",
        ),
        pytest.param(
            entry("configmaps", HOME, f"kais-outbox-scope-{OWN_UID}"), id="an outbox of its scope"
        ),
        pytest.param(entry("configmaps", HOME, "kais-config"), id="an object of the installation"),
        pytest.param(
            entry("secrets", HOME, f"kais-outbox-{OTHER_UID}"), id="no outbox by its kind"
        ),
        pytest.param(entry("clusterroles", None, "kais"), id="an object of no namespace"),
        pytest.param(entry("missions", OWN, "used", verb="delete"), id="a deletion"),
    ],
)
def test_write_that_breaks_the_rest_is_listed(log_entry: dict[str, Any]) -> None:
    assert listed(log_entry) == [audit.line(log_entry)]


@pytest.mark.parametrize(
    "log_entry",
    [
        pytest.param(entry("missions", OWN, "used", verb="get"), id="a read"),
        pytest.param(entry("missions", OTHER, "busy"), id="an object of another namespace"),
        pytest.param(
            entry("configmaps", HOME, outbox_of(OTHER, OTHER_UID), verb="create"),
            id="the outbox of a run in another namespace",
        ),
        pytest.param(
            entry("configmaps", HOME, f"kais-outbox-scope-{OTHER_UID}"),
            id="the outbox of a scope in another namespace",
        ),
    ],
)
def test_log_entry_of_others_is_not_listed(log_entry: dict[str, Any]) -> None:
    assert listed(log_entry) == []


@pytest.mark.parametrize(("name", "period_s"), audit.LEASE_PERIODS_S.items())
def test_lease_may_be_written_once_a_period(name: str, period_s: float) -> None:
    assert listed(*leases(name, every_s=period_s)) == []
    assert len(listed(*leases(name, every_s=period_s / 2))) == 1


def test_lease_that_nobody_expects_is_listed() -> None:
    assert listed(*leases("kais-new", every_s=30)) == [
        "leases kais-new was written 5 times in 120 s"
    ]


def leases(name: str, *, every_s: float) -> list[dict[str, Any]]:
    writes = range(round(120 / every_s) + 1)
    return [entry("leases", HOME, name, second=number * every_s) for number in writes]
