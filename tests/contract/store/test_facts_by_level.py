"""How many live facts each level of scopes holds, as the metrics tell it."""

from __future__ import annotations

from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families as families

from knowledge_service.errors import StoreUnavailable
from knowledge_service.metrics import FACT_COUNTS_MAX_AGE_S, Metrics
from knowledge_service.ports import ActionContext
from knowledge_service.store.sqlite.store import SqliteStore
from tests.knowledge_builders import LEAD, PERSON, TEAM, new_fact

NONE = {"platform": 0, "realm": 0, "formation": 0, "cell": 0}


def test_live_facts_are_counted_by_the_level_of_their_scope(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "k.db")
    assert store.facts_by_level() == NONE
    locations = ("platform", "realm:demo", "realm:cell", TEAM, TEAM, LEAD, LEAD, LEAD)
    facts = [new_fact(f"fact {number}", scope=scope) for number, scope in enumerate(locations)]
    *_, last = store.remember(facts, actor=PERSON)
    assert store.facts_by_level() == {"platform": 1, "realm": 2, "formation": 2, "cell": 3}
    store.retract(last.fact_id, ActionContext(PERSON, "because"))
    store.delete_scope(TEAM, actor=PERSON)
    assert store.facts_by_level() == {"platform": 1, "realm": 2, "formation": 0, "cell": 2}
    store.close()


class Counted:
    """A store that counts how often it is asked."""

    def __init__(self) -> None:
        self.asked = 0
        self.is_away = False

    def __call__(self) -> dict[str, int]:
        self.asked += 1
        if self.is_away:
            raise StoreUnavailable("the disk is gone")
        return {"realm": self.asked}


def samples(metrics: Metrics) -> dict[str, float]:
    return {
        sample.labels["level"]: sample.value
        for family in families(metrics.render().decode())
        for sample in family.samples
        if sample.name == "kais_knowledge_facts"
    }


def test_whoever_asks_often_costs_the_store_one_count_in_half_a_minute() -> None:
    metrics, store, now_s = Metrics(), Counted(), [100.0]
    metrics.watch_facts(store, monotonic=lambda: now_s[0])
    assert store.asked == 0, "wiring the metric asks the store"
    for _ in range(5):
        assert samples(metrics) == {"realm": 1}
    now_s[0] += FACT_COUNTS_MAX_AGE_S
    assert samples(metrics) == {"realm": 2}


def test_a_store_that_cannot_be_read_takes_no_other_metric_away() -> None:
    metrics, store = Metrics(), Counted()
    store.is_away = True
    metrics.watch_facts(store)
    metrics.record_extraction("done", 0.2)
    assert samples(metrics) == {}
    text = metrics.render().decode()
    assert 'kais_extraction_seconds_count{state="done"} 1.0' in text
    assert 'kais_knowledge_extractions_total{state="done"} 1.0' in text
