import json

import httpx
import pytest

from kais_cli import errors, settings
from kais_cli.exit_status import ExitStatus
from tests.cli import objects


@pytest.fixture(autouse=True)
def reachable(cluster):
    cluster.put(objects.knowledge_pod())
    cluster.put(objects.account())


def recalled(*facts):
    ranked = [fact | {"rank": i + 1, "score": 2.5} for i, fact in enumerate(facts)]
    return {
        "receipt": "rc1", "facts": ranked, "scopes": ["realm:demo"], "known_at": objects.AT,
        "ranker": "1",
    }  # fmt: skip


def problem(status, code):
    body = {"title": "t", "status": status, "code": code, "detail": "the service's words"}
    return httpx.Response(status, content=json.dumps(body).encode())


def test_recall_goes_through_the_pod_with_a_token_of_the_realm(terminal, cluster, knowledge):
    fact = objects.fact("f1", "the registry\nis down")
    knowledge.answers["POST /v1/recall"] = recalled(fact)
    assert terminal.run("knowledge", "recall", "why do pods fail", "--limit", "3") == 0
    assert terminal.out.splitlines() == [
        "RANK  SCORE  ID  SCOPE                        CONTENT",
        "1     2.50   f1  realm:demo/formation:doctor  the registry is down",
    ]
    assert cluster.tokens == [("demo", "kais-user", "kais-knowledge")]
    assert cluster.forwarded == [("kais-system", "kais-knowledge-0", 8000)]
    assert knowledge.requests[0].headers["Authorization"] == "Bearer token-of-demo-kais-user"
    assert knowledge.sent()["query"] == "why do pods fail"


def test_an_administrator_asks_for_a_token_of_the_releases_administrators(
    terminal, cluster, knowledge
):
    admin = {"name": "kais-knowledge-admin", "namespace": "kais-system"}
    cluster.put({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": admin})
    knowledge.answers["POST /v1/recall"] = recalled()
    assert terminal.run("knowledge", "--as", "admin", "recall", "x") == 0
    assert cluster.tokens == [("kais-system", "kais-knowledge-admin", "kais-knowledge")]


def test_a_person_sends_the_token_of_the_own_login(terminal, cluster, knowledge):
    cluster.login = "token-of-ada"
    knowledge.answers["POST /v1/recall"] = recalled()
    assert terminal.run("knowledge", "--as", "me", "recall", "x") == 0
    assert knowledge.requests[0].headers["Authorization"] == "Bearer token-of-ada"
    assert cluster.tokens == []


def test_a_login_without_a_token_is_told_what_to_do(terminal, knowledge):
    assert terminal.run("knowledge", "--as", "me", "recall", "x") == ExitStatus.FAILED
    assert "logs in without a token" in terminal.err
    assert "use `--as admin`" in terminal.err
    assert knowledge.requests == []


@pytest.mark.parametrize(
    ("scope", "path"),
    [
        ("doctor", "realm:demo/formation:doctor"),
        ("realm:demo", "realm:demo"),
        ("platform", "platform"),
    ],
)
def test_a_scope_is_a_path_or_a_blueprints_name(terminal, knowledge, scope, path):
    knowledge.answers["POST /v1/recall"] = recalled()
    terminal.run("knowledge", "recall", "x", "--scope", scope)
    assert knowledge.sent(0)["scopes"] == [path]


def test_a_scope_that_is_none_is_a_usage_error(terminal):
    status = terminal.run("knowledge", "recall", "x", "--scope", "realm:demo/team:x")
    assert status == ExitStatus.USAGE
    assert terminal.err.startswith('error: --scope "realm:demo/team:x" is not a scope')


def test_nothing_known_is_said_beside_the_output(terminal, knowledge):
    knowledge.answers["POST /v1/recall"] = recalled()
    assert terminal.run("knowledge", "recall", "x") == 0
    assert (terminal.out, terminal.err) == ("", "nothing is known about this\n")


def test_recall_as_json_has_the_receipt(terminal, knowledge):
    knowledge.answers["POST /v1/recall"] = recalled(objects.fact("f1", "x"))
    terminal.run("knowledge", "recall", "x", "-o", "json")
    assert json.loads(terminal.out)["receipt"] == "rc1"


def test_add_stores_a_fact_and_prints_its_id(terminal, knowledge):
    knowledge.answers["POST /v1/facts"] = {"fact_id": "f9", "status": "created"}
    status = terminal.run(
        "knowledge", "add", "the registry moved", "--scope", "doctor", "--tag", "a", "--tag", "b",
        "--kind", "pitfall", "--confidence", "0.9",
    )  # fmt: skip
    assert (status, terminal.out) == (0, "f9\n")
    sent = knowledge.sent()
    assert (sent["content"], sent["kind"]) == ("the registry moved", "pitfall")
    assert (sent["tags"], sent["confidence"]) == (["a", "b"], 0.9)
    assert sent["scope"] == "realm:demo/formation:doctor"
    assert sent["source"]["type"] == "user_input"


def test_add_says_what_became_of_older_facts(terminal, knowledge):
    knowledge.answers["POST /v1/facts"] = {
        "fact_id": "f9", "status": "confirmed", "superseded": ["f1"], "contradicts": ["f2"],
    }  # fmt: skip
    terminal.run("knowledge", "add", "x")
    assert terminal.err.splitlines() == [
        "an equal fact exists already and was confirmed",
        "replaces f1",
        "contradicts f2; both stay",
    ]


def test_an_empty_fact_is_a_usage_error(terminal):
    assert terminal.run("knowledge", "add", "  ") == ExitStatus.USAGE


def test_a_confidence_out_of_bounds_is_a_usage_error(terminal):
    assert terminal.run("knowledge", "add", "x", "--confidence", "2") == ExitStatus.USAGE


def test_a_fact_longer_than_the_service_takes_is_a_usage_error(terminal, knowledge):
    status = terminal.run("knowledge", "add", "x" * 9000)
    assert status == ExitStatus.USAGE
    assert terminal.err == "error: content: has 9,000 characters; the maximum is 8,192\n"
    assert knowledge.requests == []


def test_list_passes_its_filters_and_says_when_there_is_more(terminal, knowledge):
    page = {"facts": [objects.fact("f1", "x" * 150)], "cursor": "next"}
    knowledge.answers["GET /v1/facts"] = page
    status = terminal.run(
        "knowledge", "list", "--scope", "doctor", "--kind", "fact", "--source",
        "mission_extraction", "--limit", "1",
    )  # fmt: skip
    assert status == 0
    assert dict(knowledge.requests[0].url.params) == {
        "scope": "realm:demo/formation:doctor", "kind": "fact", "lifecycle": "live",
        "source": "mission_extraction", "limit": "1",
    }  # fmt: skip
    assert terminal.out.splitlines()[1].endswith("x…")
    assert terminal.err == "there are more facts: use --all, or --cursor next\n"


def test_list_gives_ids_for_pipes(terminal, knowledge):
    knowledge.answers["GET /v1/facts"] = {"facts": [objects.fact("f1", "x")]}
    terminal.run("knowledge", "list", "-o", "name")
    assert terminal.out == "f1\n"


def test_a_missing_account_is_made_and_used(terminal, cluster, knowledge):
    knowledge.answers["GET /v1/facts"] = {"facts": []}
    assert terminal.run("knowledge", "list", "-n", "fresh") == 0
    (account,) = cluster.created
    assert account["metadata"] == {
        "name": "kais-user",
        "namespace": "fresh",
        "labels": {"app.kubernetes.io/managed-by": "kais"},
    }
    assert knowledge.requests[0].headers["Authorization"] == "Bearer token-of-fresh-kais-user"


def test_a_service_that_is_not_installed_is_unreachable(terminal, cluster):
    cluster._objects.pop(("Pod", "kais-system", "kais-knowledge-0"))
    assert terminal.run("knowledge", "list") == ExitStatus.UNREACHABLE
    assert "`kais doctor` says whether it is installed, or scaled to 0; set" in terminal.err


def test_a_service_that_is_not_ready_is_unreachable(terminal, cluster):
    pod = objects.knowledge_pod() | {"status": {"phase": "Pending"}}
    cluster.put(pod)
    assert terminal.run("knowledge", "list") == ExitStatus.UNREACHABLE
    assert "Pod/kais-system/kais-knowledge-0 is Pending" in terminal.err


def test_a_refusal_is_in_the_services_words(terminal, knowledge):
    knowledge.answers["GET /v1/facts"] = problem(403, "scope-forbidden")
    assert terminal.run("knowledge", "list") == ExitStatus.FAILED
    assert terminal.err.startswith("error: the service's words (scope-forbidden); `kais ")


def test_a_direct_address_needs_no_cluster(terminal, cluster, knowledge, monkeypatch):
    monkeypatch.delenv("KNOWLEDGE_TOKEN_FILE", raising=False)
    terminal.settings = settings.Settings(knowledge_url="http://127.0.0.1:8000")
    knowledge.answers["GET /v1/facts"] = {"facts": []}
    assert terminal.run("knowledge", "list") == 0
    assert terminal.asked == []
    assert knowledge.requests[0].url.port == 8000
    assert "Authorization" not in knowledge.requests[0].headers


def test_a_bare_scope_needs_no_cluster_where_the_address_is_told(terminal, cluster, knowledge):
    terminal.settings = settings.Settings(knowledge_url="http://127.0.0.1:9")
    cluster.failure = errors.Unreachable("no cluster")
    knowledge.answers["POST /v1/recall"] = recalled()
    assert terminal.run("knowledge", "recall", "x", "--scope", "doctor") == 0
    assert knowledge.sent(0)["scopes"] == ["realm:default/formation:doctor"]
    assert terminal.asked == []


def test_on_a_terminal_a_recalled_fact_is_a_paragraph(terminal, knowledge):
    terminal.is_terminal, terminal.width = True, 40
    fact = objects.fact("f1", "the registry is down on Mondays, from three to five")
    knowledge.answers["POST /v1/recall"] = recalled(fact)
    terminal.run("knowledge", "recall", "why do pods fail")
    assert terminal.out == (
        "1  f1  realm:demo/formation:doctor  2.50\n"
        "   the registry is down on Mondays, from\n"
        "   three to five\n"
    )


def test_list_narrows_by_what_facts_are_about_and_what_they_say(terminal, knowledge):
    knowledge.answers["GET /v1/facts"] = {"facts": []}
    options = ("--about", "alias:entity:ship", "--contains", "crane", "--schema", "graph/1")
    options += ("--subject", "ship", "--alias-namespace", "ko")
    assert terminal.run("knowledge", "list", *options, "--unlinked") == 0
    sent = dict(knowledge.requests[-1].url.params)
    assert (sent["about"], sent["contains"]) == ("alias:entity:ship", "crane")
    assert (sent["schema"], sent["unlinked"]) == ("graph/1", "true")
    assert (sent["subject"], sent["alias_namespace"]) == ("ship", "ko")
    terminal.run("knowledge", "list")
    assert "unlinked" not in knowledge.requests[-1].url.params


def test_list_sends_each_facet(terminal, knowledge):
    knowledge.answers["GET /v1/facts"] = {"facts": []}
    facets = ("--schema", "ko/1", "--facet", "a.b=c", "--facet", "d=e")
    assert terminal.run("knowledge", "list", *facets) == 0
    assert knowledge.requests[-1].url.params.get_list("facet") == ["a.b=c", "d=e"]
