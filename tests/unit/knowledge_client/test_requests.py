import httpx
import pytest

from knowledge_client import models, requests

RUN = models.RunIn(namespace="demo", scope="realm:demo")

ROUTES = [
    (requests.remember(models.FactIn(content="x")), "POST", "/v1/facts"),
    (
        requests.remember_batch(models.FactsIn(facts=(models.FactIn(content="x"),))),
        "POST",
        "/v1/facts:batch",
    ),
    (requests.list_facts(scope=None), "GET", "/v1/facts"),
    (requests.get_fact("f1"), "GET", "/v1/facts/f1"),
    (requests.correct("f1", models.CorrectIn(reason="r")), "POST", "/v1/facts/f1:correct"),
    (requests.recall(models.RecallIn(query="q")), "POST", "/v1/recall"),
    (requests.get_receipt("r1"), "GET", "/v1/receipts/r1"),
    (
        requests.add_episodes(
            models.EpisodesIn(run_id="r1", episodes=(models.EpisodeIn(type="error", content="x"),))
        ),
        "POST",
        "/v1/episodes",
    ),
    (requests.list_episodes("r1"), "GET", "/v1/runs/r1/episodes"),
    (requests.put_run("r1", RUN), "PUT", "/v1/runs/r1"),
    (requests.get_run("r1"), "GET", "/v1/runs/r1"),
    (requests.list_runs(), "GET", "/v1/runs"),
    (requests.blueprint_stats("demo", "doctor"), "GET", "/v1/stats/blueprints/demo/doctor"),
    (requests.stats_batch(models.StatsIn()), "POST", "/v1/stats:batch"),
    (requests.start_extraction(models.ExtractionIn(run_id="r1")), "POST", "/v1/extractions"),
    (requests.get_extraction("r1"), "GET", "/v1/extractions/r1"),
    (
        requests.put_scope("realm:demo/formation:x", models.ScopeConfig()),
        "PUT",
        "/v1/scopes/realm:demo/formation:x",
    ),
    (requests.get_scope("platform"), "GET", "/v1/scopes/platform"),
    (requests.delete_scope("realm:demo"), "DELETE", "/v1/scopes/realm:demo"),
    (requests.list_scopes(), "GET", "/v1/scopes"),
    (requests.reset_scope("realm:demo"), "POST", "/v1/scopes/realm:demo:reset"),
    (requests.adopt_scope("realm:demo"), "POST", "/v1/scopes/realm:demo:adopt"),
    (requests.replay("r1"), "GET", "/v1/receipts/r1:replay"),
    (requests.diff("r1"), "GET", "/v1/receipts/r1:diff"),
    (requests.unlink("a", "b", "mentions"), "DELETE", "/v1/links"),
    (requests.list_links("alias:entity:CI~1CD"), "GET", "/v1/facts/alias:entity:CI~1CD/links"),
    (requests.neighbors("f1", types=["a", "b"]), "GET", "/v1/facts/f1/neighbors"),
    (requests.why("f1"), "GET", "/v1/facts/f1/why"),
    (requests.impact("f1"), "GET", "/v1/facts/f1/impact"),
    (requests.audit(), "GET", "/v1/audit"),
    (requests.events("e1"), "GET", "/v1/events"),
    (requests.list_principals(), "GET", "/v1/principals"),
    (requests.delete_principal("system:x"), "DELETE", "/v1/principals"),
    (requests.whoami(), "GET", "/v1/whoami"),
    (requests.ready(), "GET", "/readyz"),
]


@pytest.mark.parametrize(
    ("request_", "method", "path"), ROUTES, ids=[f"{m} {p}" for _, m, p in ROUTES]
)
def test_each_call_goes_to_its_route(request_, method, path):
    assert (request_.method, request_.path) == (method, path)


def test_absent_fields_are_not_sent_but_nulls_inside_data_are():
    sent = requests.remember(models.FactIn(content="x", data={"a": None}, schema="s/1")).json

    assert sent["data"] == {"a": None}
    assert sent["schema"] == "s/1"
    assert "title" not in sent


def test_filters_that_are_none_are_left_out():
    request = requests.list_facts(scope="realm:demo", kind=None, limit=5)

    assert request.params == (("scope", "realm:demo"), ("limit", "5"))


def test_followed_topics_are_repeated_parameters():
    request = requests.events("e1", topics=["block", "fact.recorded"])

    assert request.params == (("topic", "block"), ("topic", "fact.recorded"))
    assert request.headers == (("Last-Event-ID", "e1"),)


def test_an_id_cannot_leave_its_path_segment():
    assert requests.get_fact("../runs?x").path == "/v1/facts/..%2Fruns%3Fx"


@pytest.mark.parametrize("dots", [".", ".."])
def test_an_id_of_dots_cannot_leave_its_path_segment(dots):
    sent = httpx.Request("GET", f"http://service{requests.get_chart(dots).path}")
    assert sent.url.raw_path.count(b"/") == 3
    assert sent.url.path == f"/v1/charts/{dots}"


def test_an_alias_keeps_its_colons():
    assert requests.get_fact("global:pitfall:001").path == "/v1/facts/global:pitfall:001"


@pytest.mark.parametrize(
    "request_",
    [r for r, m, _ in ROUTES if m == "POST"],
    ids=[r.path for r, m, _ in ROUTES if m == "POST"],
)
def test_only_posts_that_change_something_need_a_key(request_):
    assert request_.needs_key is (request_.path not in {"/v1/recall", "/v1/stats:batch"})


def test_a_given_key_is_kept():
    assert requests.recall(models.RecallIn(query="q"), "k").idempotency_key == "k"
