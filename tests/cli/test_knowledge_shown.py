"""How facts look: on terminals of several widths, in pipes, and for programs."""

import json
import re
from pathlib import Path

import httpx
import pytest
import yaml

from kais_cli import settings
from kais_cli.views import score_explanation, text_width
from knowledge_client.models import RecalledFact
from tests.cli import objects

ROOT = Path(__file__).parents[2]
LONG = "The harbour opens at six and closes when the last boat is in. " * 20


@pytest.fixture(autouse=True)
def direct(terminal):
    terminal.settings = settings.Settings(knowledge_url="http://127.0.0.1:8000")


def on(terminal, columns):
    terminal.is_terminal = columns is not None
    terminal.columns, terminal.width = columns, columns and min(columns, 110)


def listed(terminal, knowledge, *options, columns=None):
    facts = [objects.fact(f"id-{n}", text) for n, text in enumerate(["short", LONG, "港は" * 200])]
    knowledge.answers["GET /v1/facts"] = {"facts": facts}
    on(terminal, columns)
    assert terminal.run("knowledge", "list", *options) == 0, terminal.err
    return terminal.out


@pytest.mark.parametrize("columns", [80, 100, 120, 160, 240])
def test_list_never_is_wider_than_the_terminal(terminal, knowledge, columns):
    lines = listed(terminal, knowledge, columns=columns).splitlines()
    assert max(text_width.column_count(line) for line in lines) <= columns
    assert sum(line.endswith("…") for line in lines) == 2


def test_terminal_without_room_for_words_beside_the_columns_gets_two_lines_a_fact(
    terminal, knowledge
):
    lines = listed(terminal, knowledge, columns=80).splitlines()
    assert lines[:2] == [
        "id-0  realm:demo/formation:doctor  fact  0.60  mission_extraction  live",
        "   short",
    ]


def test_pipe_gets_a_line_a_fact(terminal, knowledge):
    lines = listed(terminal, knowledge).splitlines()
    assert len(lines) == 4
    assert lines[0].split() == [
        "ID", "SCOPE", "KIND", "CONFIDENCE", "SOURCE", "LIFECYCLE", "CONTENT",
    ]  # fmt: skip


def test_wide_has_every_column_and_all_words(terminal, knowledge):
    lines = listed(terminal, knowledge, "-o", "wide", columns=80).splitlines()
    assert "RECORDED (UTC)" in lines[0]
    assert lines[2].endswith(LONG.strip())


def test_forms_for_programs_say_the_same_and_nothing_else(terminal, knowledge):
    tree = json.loads(listed(terminal, knowledge, "-o", "json"))
    assert terminal.out == json.dumps(tree, indent=2, ensure_ascii=False) + "\n"
    assert yaml.safe_load(listed(terminal, knowledge, "-o", "yaml")) == tree
    assert listed(terminal, knowledge, "-o", "name") == "id-0\nid-1\nid-2\n"


@pytest.mark.parametrize(("form", "text"), [("json", "[]\n"), ("yaml", "[]\n"), ("name", "")])
def test_nothing_is_an_empty_list_to_programs(terminal, knowledge, form, text):
    knowledge.answers["GET /v1/facts"] = {"facts": []}
    terminal.run("knowledge", "list", "-o", form)
    assert (terminal.out, terminal.err) == (text, "no facts match\n")


def pages(*sizes):
    """Answer with pages of facts, whose cursor is the number of the next page."""

    def answer(request):
        number = int(request.url.params.get("cursor", "0"))
        start = sum(sizes[:number])
        facts = [objects.fact(f"f{n}", f"fact {n}") for n in range(start, start + sizes[number])]
        extra_fields = {"cursor": str(number + 1)} if number + 1 < len(sizes) else {}
        requests.append(int(request.url.params["limit"]))
        return httpx.Response(200, json={"facts": facts, **extra_fields})

    requests = []
    answer.asked = requests
    return answer


def test_all_pages_are_one_list(terminal):
    terminal.knowledge = pages(100, 0, 100, 30)
    assert terminal.run("knowledge", "list", "--all", "-o", "json") == 0
    assert [fact["id"] for fact in json.loads(terminal.out)] == [f"f{n}" for n in range(230)]
    assert terminal.err == ""
    terminal.run("knowledge", "list", "--all")
    assert len(terminal.out.splitlines()) == 231
    assert terminal.out.count("CONTENT") == 1


def test_limit_beyond_a_page_is_asked_for_in_pages(terminal):
    terminal.knowledge = answer = pages(100, 50, 100)
    terminal.run("knowledge", "list", "--limit", "150", "-o", "name")
    assert len(terminal.out.split()) == 150
    assert answer.asked == [100, 50]
    assert terminal.err == "there are more facts: use --all, or --cursor 2\n"


def test_scope_that_nobody_sees_is_said_with_the_nearest_one(terminal, knowledge):
    knowledge.answers["GET /v1/facts"] = {"facts": []}
    stats = {"path": "realm:demo/formation:doctor"}
    scope = {**stats, "declared": False, "config": {}, "stats": stats}
    knowledge.answers["GET /v1/scopes"] = {"scopes": [scope]}
    terminal.run("knowledge", "list", "--scope", "doktor", "-n", "demo")
    assert terminal.err == (
        "no facts match; you see no scope realm:demo/formation:doktor;"
        " did you mean realm:demo/formation:doctor?\n"
    )
    terminal.run("knowledge", "list", "--scope", "doctor", "-n", "demo")
    assert terminal.err == "no facts match\n"


def ranked(**parts):
    fact = objects.fact("f1", "x") | {"rank": 1, "score": 3.4, "confidence": 0.8, "parts": parts}
    return RecalledFact.model_validate(fact)


def test_score_is_told_in_words():
    fact = ranked(
        bm25=3.0, context=0.0, links=0.2, x_confidence=1.06, x_recency=0.98, x_phrase=1.0,
        **{"=lift": 1.0, "=crane": 2.0},
    )  # fmt: skip
    assert score_explanation.explain_score(fact, "What does the Crane, lifting?") == [
        (
            "3.40 = 3.00 words of the question (Crane 2.00, lifting 1.00)"
            " + 0.20 facts that it is linked with"
        ),
        "× 1.06 has confidence 0.80, × 0.98 is old",  # noqa: RUF001 - the sign of a product
    ]


def test_words_that_those_of_the_question_bring_are_not_told_as_typed():
    fact = ranked(bm25=4.0, **{"=certif": 2.0, "=cert": 1.0, "=polici": 0.6, "=expir": 0.4})
    assert score_explanation.explain_score(
        fact, "A certificate? Which policy has the certificate?"
    )[0] == (
        "3.40 = 4.00 words of the question, and others for them"
        " (certificate 2.00, cert 1.00, policy 0.60, expir 0.40)"
    )


def test_parts_of_an_identifier_and_words_without_their_accents_are_of_the_question():
    parts = {"==imagepullbackoff": 2.0, "=imag": 1.0, "=off": 0.5, "=lauft": 0.4}
    message = score_explanation.explain_score(ranked(bm25=3.9, **parts), "ImagePullBackOff läuft")[
        0
    ]
    assert message == (
        "3.40 = 3.90 words of the question (ImagePullBackOff 2.00, imag 1.00, off 0.50, läuft 0.40)"
    )


def test_pieces_of_a_text_without_spaces_are_told_as_they_are():
    fact = ranked(bm25=2.0, **{"=备份": 1.0, "=份存": 1.0})
    assert (
        "of the question (备份 1.00, 份存 1.00)"
        in score_explanation.explain_score(fact, "备份存储在哪里")[0]
    )


def test_dates_and_what_belongs_together_are_told_in_words():
    fact = ranked(**{"bm25": 1.0, "=may": 0.5, "=d:2023-05": 0.5, "session": 0.3})
    assert score_explanation.explain_score(fact, "What was said in May 2023?")[0] == (
        "3.40 = 1.00 words of the question (May 0.50, the date 2023-05 0.50)"
        " + 0.30 the rest of its conversation or run"
    )


def test_fact_that_shares_no_word_says_so():
    assert score_explanation.explain_score(ranked(), "x") == [
        "3.40: no word of the question, given to fill the answer up"
    ]


def test_every_part_that_recall_gives_has_words():
    ranking = (ROOT / "knowledge_service/search/ranking/ranking.py").read_text()
    names = set(re.findall(r'"(x_[a-z]+)"', ranking)) | {
        name for name in re.findall(r'\["([a-z0-9]+)"\] = ', ranking) if not name.startswith("x_")
    }
    assert len(names) > 8
    assert names <= score_explanation.DESCRIBED_PARTS


def test_long_fact_of_a_recall_is_cut_on_a_terminal_and_whole_in_a_pipe(terminal, knowledge):
    fact = objects.fact("f1", LONG) | {"rank": 1, "score": 2.5}
    knowledge.answers["POST /v1/recall"] = {
        "receipt": "rc1", "facts": [fact], "scopes": [], "known_at": objects.AT, "ranker": "1",
    }  # fmt: skip
    on(terminal, 80)
    terminal.run("knowledge", "recall", "x")
    assert len(terminal.out.splitlines()) <= 10
    assert terminal.out.endswith("…\n")
    on(terminal, None)
    terminal.run("knowledge", "recall", "x")
    assert terminal.out.endswith(LONG.strip() + "\n")
