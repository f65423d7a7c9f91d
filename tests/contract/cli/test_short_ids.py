"""The beginning of an id stands for the fact, if it is that of one fact only."""

import httpx
import pytest

from kais_cli.exit_status import ExitStatus
from tests.cli import objects

FIRST = "01a20273-baae-74f2-a8ca-83ecb715fd90"
SECOND = "01a20273-c0f1-7a14-9a35-2f1f6a3f0c11"


@pytest.fixture
def added(shell):
    """The id of a fact, and its first 35 characters, with which no other id begins."""
    whole = shell("add", "The harbour opens at six.").strip()
    return whole, whole[:-1]


def test_a_fact_is_shown_by_the_beginning_of_its_id(shell, added):
    whole, beginning = added
    assert shell("show", beginning).startswith(f"{whole} in ")
    assert shell("show", beginning.upper()).startswith(f"{whole} in ")


@pytest.mark.parametrize("command", ["why", "impact"])
def test_every_read_takes_the_beginning_of_an_id(shell, added, command):
    whole, beginning = added
    assert shell(command, beginning) == shell(command, whole)


def test_changes_take_the_beginning_of_an_id(shell, added):
    whole, beginning = added
    assert shell("correct", beginning, "--reason", "it moved").startswith(f"{whole}: closed")
    assert shell("undo", beginning, "--reason", "it did not").startswith(f"{whole}: live again")
    assert whole in shell("retract", beginning, "--reason", "wrong")


def test_a_beginning_of_several_ids_is_refused_with_their_texts(terminal, cluster, knowledge):
    cluster.put(objects.knowledge_pod())
    cluster.put(objects.account())
    facts = [objects.fact(FIRST, "The harbour opens at six."), objects.fact(SECOND, "Ships float.")]
    knowledge.answers["GET /v1/facts"] = {"facts": facts}
    assert terminal.run("knowledge", "show", "01A20273") == ExitStatus.USAGE
    assert terminal.err == (
        "error: several IDs begin with 01a20273; write more of it:\n"
        f"  {FIRST}  The harbour opens at six.\n"
        f"  {SECOND}  Ships float.\n"
    )
    assert knowledge.requests[-1].url.params["id_prefix"] == "01a20273"


UNKNOWN_PARAMETER = {
    "title": "Invalid body",
    "status": 422,
    "code": "INVALID_BODY",
    "detail": "the request has unknown parameters or fields",
    "violations": [{"path": "id_prefix", "message": "unknown parameter of this route"}],
}


def older_service(*pages):
    """Answer as a service without the parameter `id_prefix`, page by page."""
    remaining = list(pages)

    def answer(request):
        if "id_prefix" in request.url.params:
            return httpx.Response(422, json=UNKNOWN_PARAMETER)
        return httpx.Response(200, json=remaining.pop(0))

    return answer


def test_an_older_service_is_searched_page_by_page(terminal, cluster, knowledge):
    cluster.put(objects.knowledge_pod())
    cluster.put(objects.account())
    newer = objects.fact("01a20999-c0f1-7a14-9a35-2f1f6a3f0c11", "Ships float.")
    both = [objects.fact(SECOND, "Ships sink."), objects.fact(FIRST, "The harbour opens at six.")]
    older = objects.fact("01a10000-c0f1-7a14-9a35-2f1f6a3f0c11", "It rains.")
    knowledge.answers["GET /v1/facts"] = older_service(
        {"facts": [newer], "cursor": "next"}, {"facts": [*both, older], "cursor": "never read"}
    )
    assert terminal.run("knowledge", "show", "01a20273") == ExitStatus.USAGE
    assert terminal.err == (
        "error: several IDs begin with 01a20273; write more of it:\n"
        f"  {SECOND}  Ships sink.\n"
        f"  {FIRST}  The harbour opens at six.\n"
    )
    assert knowledge.requests[-1].url.params["cursor"] == "next"


def test_another_mistake_is_not_taken_for_an_older_service(terminal, cluster, knowledge):
    cluster.put(objects.knowledge_pod())
    cluster.put(objects.account())
    violation = {"path": "limit", "message": "too large"}
    problem = UNKNOWN_PARAMETER | {"violations": [violation]}
    knowledge.answers["GET /v1/facts"] = httpx.Response(422, json=problem)
    terminal.run("knowledge", "show", "01a20273")
    assert "too large" in terminal.err
    assert len(knowledge.requests) == 1


def test_a_beginning_of_no_id_is_refused(shell):
    shell("show", "0000000", status=ExitStatus.USAGE)
    assert shell.terminal.err == (
        "error: no fact that you can see has an ID that begins with 0000000\n"
    )
