"""The alerts of the page for the night: valid PromQL, over metrics and labels that exist."""

import re
from collections.abc import Iterator
from typing import Any

import promql_parser
import pytest
import yaml
from fastapi.responses import StreamingResponse
from fastapi.routing import APIRoute

from e2e.support import documents
from kais.outcomes import Outcome
from kais_operator.informer import watch_targets
from kais_operator.manager import metrics as operator_metrics
from knowledge_service import metrics as service_metrics
from knowledge_service.routes import events

PAGE = documents.ROOT / "docs/how-to/operate-at-night.md"
REFERENCE = (documents.ROOT / "docs/reference/metrics.md").read_text()
OF_OTHERS = ("kubelet_", "kube_")
SEVERITIES = {"page", "ticket"}


def rules() -> list[dict[str, Any]]:
    (group,) = yaml.safe_load(documents.files(PAGE)["kais-alerts.yaml"])["groups"]
    listed: list[dict[str, Any]] = group["rules"]
    return listed


RULES = [pytest.param(rule, id=rule["alert"]) for rule in rules()]


def selectors(node: Any) -> Iterator[Any]:
    """Yield every selector of a metric in an expression."""
    if isinstance(node, promql_parser.VectorSelector):
        yield node
    if isinstance(node, promql_parser.MatrixSelector):
        yield node.vector_selector
    for name in ("lhs", "rhs", "expr"):
        if hasattr(node, name):
            yield from selectors(getattr(node, name))
    for argument in getattr(node, "args", ()):
        yield from selectors(argument)


def series() -> dict[str, set[str]]:
    """Return the labels of each series of ours: a sample of each family, as Prometheus names it."""
    operator = operator_metrics.Metrics()
    operator.export_queue(lambda: 0.0, lambda: 0.0)
    operator.export_requests({("get", "pods"): 1})
    registries = (operator.registry, service_metrics.Metrics().registry)
    found: dict[str, set[str]] = {"kais_knowledge_facts": {"level"}}
    for registry in registries:
        for collector in list(registry._collector_to_names):
            labels = set(getattr(collector, "_labelnames", ()))
            for name in registry._collector_to_names[collector]:
                found[name] = labels | ({"le"} if name.endswith("_bucket") else set())
    return found


@pytest.mark.parametrize("rule", RULES)
def test_alert_reads_metrics_and_labels_that_exist(rule: dict[str, Any]) -> None:
    known = series()
    used = list(selectors(promql_parser.parse(rule["expr"])))
    assert used, "the expression reads no metric"
    for selector in used:
        if selector.name.startswith(OF_OTHERS):
            continue
        assert selector.name in known, selector.name
        labels = {matcher.name for matcher in selector.matchers.matchers}
        assert labels <= known[selector.name], f"{selector.name} has no label {labels}"


@pytest.mark.parametrize("rule", RULES)
def test_values_of_labels_are_those_of_the_reference(rule: dict[str, Any]) -> None:
    for selector in selectors(promql_parser.parse(rule["expr"])):
        if selector.name.startswith(OF_OTHERS):
            continue
        for matcher in selector.matchers.matchers:
            if matcher.name == "route":
                continue  # compared with the routes below
            values = [v for v in matcher.value.split("|") if v != "5.."]
            outcomes = {outcome.value for outcome in Outcome}
            assert [v for v in values if f"`{v}`" not in REFERENCE and v not in outcomes] == []


def matchers(alert: str) -> dict[str, dict[str, str]]:
    """Return the matchers of each metric that an alert reads."""
    (rule,) = (rule for rule in rules() if rule["alert"] == alert)
    return {
        selector.name: {matcher.name: matcher.value for matcher in selector.matchers.matchers}
        for selector in selectors(promql_parser.parse(rule["expr"]))
    }


@pytest.mark.parametrize("alert", ["KaisNoLeader", "KaisWatchesSilent"])
def test_alert_about_watches_reads_the_heartbeat_because_a_quiet_night_has_no_events(
    alert: str,
) -> None:
    heartbeat = {"kais_watch_last_event_age_seconds": {"kind": watch_targets.HEARTBEAT_KIND}}
    assert matchers(alert) == heartbeat


def test_alert_about_upkeep_fires_for_a_task_that_has_never_succeeded() -> None:
    assert "kais_knowledge_upkeep_failures_total" in matchers("KaisKnowledgeUpkeepStuck")


def test_alert_about_searches_reads_how_long_the_process_was_up_because_it_restarts() -> None:
    assert "kais_knowledge_search_process_up" in matchers("KaisSearchProcessFails")


def test_alert_about_backups_fires_if_none_has_ever_succeeded() -> None:
    assert "kube_cronjob_created" in matchers("KaisBackupMissing")


def test_alert_about_slow_requests_leaves_out_streams_which_stay_open() -> None:
    streams = [
        route.path
        for route in events.router.routes
        if isinstance(route, APIRoute) and route.response_class is StreamingResponse
    ]
    (matched,) = matchers("KaisKnowledgeSlow").values()
    assert [matched["route"]] == streams


def test_expression_with_an_unknown_metric_would_be_reported() -> None:
    (selector,) = selectors(promql_parser.parse("sum(rate(kais_reconciles_total[5m])) > 0"))
    assert selector.name not in series()
    assert "kais_reconcile_total" in series()


def test_every_alert_is_explained_and_has_a_severity() -> None:
    explained = re.findall(r"^\| `(Kais\w+)` \| .+ \| .+ \|$", PAGE.read_text(), re.M)
    assert sorted(explained) == sorted(rule["alert"] for rule in rules())
    assert {rule["labels"]["severity"] for rule in rules()} == SEVERITIES


def test_metrics_of_the_alerts_are_those_of_the_chart() -> None:
    monitors = yaml.safe_load_all(documents.files(PAGE)["pod-monitor.yaml"])
    templates = documents.ROOT / "charts/kais/templates"
    for monitor, name in zip(
        monitors, ("operator-deployment.yaml", "knowledge-statefulset.yaml"), strict=True
    ):
        (endpoint,) = monitor["spec"]["podMetricsEndpoints"]
        assert f"- name: {endpoint['port']}\n" in (templates / name).read_text()
