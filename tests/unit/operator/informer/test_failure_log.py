"""What is logged of lists and watches that fail, and how often."""

from __future__ import annotations

import logging

import pytest

from kais_operator import errors
from kais_operator.informer.failure_log import FailureLog
from kais_operator.informer.list_client import WatchTarget
from kais_operator.informer.watch_health import WatchHealth
from tests.fakes.clock import FakeClock

PODS = WatchTarget("Pod", "team")
PODS_OF_ALL = WatchTarget("Pod", None)
AWAY = errors.ClusterUnavailable("no answer")
FORBIDDEN = errors.Forbidden("pods is forbidden")
LOGGER = logging.getLogger(__name__)


@pytest.fixture
def health() -> WatchHealth:
    """Give the health of two named namespaces, of which `other` works."""
    watches = [("Pod", "team"), ("Pod", "other")]
    health = WatchHealth(FakeClock(), watches=watches, namespaces=("team", "other"))
    health.record_list("Pod", "other")
    return health


@pytest.fixture
def log(health: WatchHealth) -> FailureLog:
    return FailureLog(LOGGER, health)


def logged(caplog: pytest.LogCaptureFixture) -> list[tuple[int, str]]:
    return [(r.levelno, r.getMessage()) for r in caplog.records if r.name == LOGGER.name]


def fail(log: FailureLog, target: WatchTarget, exc: errors.ClusterError, *, times: int = 1) -> None:
    for _ in range(times):
        log.record_failure(target, exc, str(target), forbidden_count=3)


def test_an_error_that_repeats_is_logged_once(log: FailureLog, caplog: pytest.LogCaptureFixture):
    fail(log, PODS, AWAY, times=5)
    assert logged(caplog) == [(logging.WARNING, "Pod in team: no answer")]


def test_the_same_error_of_another_target_is_logged(
    log: FailureLog, caplog: pytest.LogCaptureFixture
):
    fail(log, PODS, AWAY)
    fail(log, WatchTarget("Cell", "team"), AWAY)
    assert [message for _, message in logged(caplog)] == [
        "Pod in team: no answer",
        "Cell in team: no answer",
    ]


def test_an_error_is_logged_again_after_another_one(
    log: FailureLog, caplog: pytest.LogCaptureFixture
):
    fail(log, PODS, AWAY)
    fail(log, PODS, errors.ClusterUnavailable("slow"))
    fail(log, PODS, AWAY)
    assert len(logged(caplog)) == 3


def test_an_error_is_logged_again_after_a_success(
    log: FailureLog, caplog: pytest.LogCaptureFixture
):
    fail(log, PODS, AWAY)
    log.record_success(PODS)
    fail(log, PODS, AWAY)
    assert len(logged(caplog)) == 2


def test_forbidden_in_a_named_namespace_is_logged_once_when_it_lasts(
    log: FailureLog, caplog: pytest.LogCaptureFixture
):
    fail(log, PODS, FORBIDDEN, times=2)
    assert logged(caplog) == []
    fail(log, PODS, FORBIDDEN, times=5)
    assert logged(caplog) == [(logging.ERROR, "Pod in team: pods is forbidden")]


def test_forbidden_in_all_namespaces_is_logged_at_once(
    log: FailureLog, caplog: pytest.LogCaptureFixture
):
    fail(log, PODS_OF_ALL, FORBIDDEN, times=5)
    assert logged(caplog) == [(logging.ERROR, "Pod in all namespaces: pods is forbidden")]


def test_nothing_is_logged_of_an_absent_namespace(
    log: FailureLog, health: WatchHealth, caplog: pytest.LogCaptureFixture
):
    health.record_forbidden("Pod", "team")
    fail(log, PODS, FORBIDDEN, times=5)
    fail(log, PODS, AWAY)
    assert logged(caplog) == []


def test_forbidden_is_logged_again_after_the_namespace_was_absent(
    log: FailureLog, health: WatchHealth, caplog: pytest.LogCaptureFixture
):
    fail(log, PODS, FORBIDDEN, times=3)
    health.record_forbidden("Pod", "team")
    fail(log, PODS, FORBIDDEN)
    health.record_list("Pod", "team")
    fail(log, PODS, FORBIDDEN, times=3)
    assert [message for _, message in logged(caplog)] == ["Pod in team: pods is forbidden"] * 2
