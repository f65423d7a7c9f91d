"""The verdicts of a model on extracted statements: reading them, and their quotations."""

from __future__ import annotations

import json

import pytest

from knowledge_service.domain import extraction_verdicts
from knowledge_service.domain.extraction_answer import MalformedAnswer
from knowledge_service.domain.extraction_verdicts import Verdict

EPISODES = (
    'helm says: "nil pointer" in <ingress.yaml>\n  at line 4',
    "set ingress.enabled: false \u2013 chart renders",
    "compiles",
)


def verdict(verdict: str = "supported", quote: str = "", difference: str = "") -> Verdict:
    return Verdict.model_validate(
        {"number": 1, "verdict": verdict, "quote": quote, "difference": difference}
    )


def answer(*numbers: int) -> str:
    entry = {"verdict": "supported", "quote": "q", "difference": ""}
    return json.dumps({"verdicts": [{"number": number, **entry} for number in numbers]})


@pytest.mark.parametrize(
    ("numbers", "valid"),
    [
        ((2, 1), {1, 2}),
        ((1,), {1}),
        ((1, 2, 3), {1, 2}),
        ((0, 1, 10**800), {1}),
        ((1, 1, 2), {2}),
    ],
)
def test_each_statement_has_the_one_verdict_of_its_number(
    numbers: tuple[int, ...], valid: set[int]
) -> None:
    verdicts = extraction_verdicts.parse(answer(*numbers), 2)
    assert {number: each.number for number, each in verdicts.items()} == {n: n for n in valid}


@pytest.mark.parametrize("numbers", [(), (1, 1), (3,), (0, -1)])
def test_answer_without_any_verdict_on_a_statement_is_malformed(numbers: tuple[int, ...]) -> None:
    with pytest.raises(MalformedAnswer, match="one verdict for each of the items 1 to 2"):
        extraction_verdicts.parse(answer(*numbers), 2)


@pytest.mark.parametrize(
    "entry",
    [
        {"number": 1, "verdict": "proven", "quote": "q", "difference": ""},
        {"number": "1", "verdict": "supported", "quote": "q", "difference": ""},
        {"number": 1, "verdict": "supported"},
        {"number": 1, "verdict": "supported", "quote": None, "difference": ""},
        "supported",
        None,
        [[[]]],
    ],
)
def test_malformed_verdict_leaves_the_others_as_they_are(entry: object) -> None:
    entries = [entry, *json.loads(answer(2))["verdicts"]]
    assert list(extraction_verdicts.parse(json.dumps({"verdicts": entries}), 2)) == [2]


def test_second_verdict_counts_even_if_it_is_malformed() -> None:
    contradicted = {"number": 1, "verdict": "contradicted"}
    entries = [contradicted, *json.loads(answer(1, 2))["verdicts"]]
    assert list(extraction_verdicts.parse(json.dumps({"verdicts": entries}), 2)) == [2]


@pytest.mark.parametrize(
    "text",
    ["", "[]", "supported", '{"verdicts": [{"number": "1"}]}', answer(1).replace("supp", "sup")],
)
def test_anything_but_the_form_is_malformed(text: str) -> None:
    with pytest.raises(MalformedAnswer):
        extraction_verdicts.parse(text, 1)


@pytest.mark.parametrize(
    "quote",
    [
        "nil pointer",
        'helm says: "nil pointer" in <ingress.yaml> at line 4',
        "helm says: \u201cnil pointer\u201d in &lt;ingress.yaml&gt;",
        "Set ingress.enabled: false - chart renders.",
        '"chart renders"',
        "compiles",
        "helm says: \u2026 chart renders",
        "nil pointer [...] line 4",
        "nil pointer\nchart renders",
    ],
)
def test_passage_of_an_episode_supports_a_statement(quote: str) -> None:
    assert extraction_verdicts.missing_support(verdict(quote=quote), EPISODES) is None


@pytest.mark.parametrize(
    "quote",
    [
        "",
        " ... ",
        "chart",
        "i",
        "chart does render",
        "nil pointer \u2026 chart does not render",
        "set ingress.enabled: true",
        "set\u2026chart",
        "all statements are supported",
    ],
)
def test_passage_that_no_episode_has_or_that_is_too_short_supports_nothing(quote: str) -> None:
    assert extraction_verdicts.missing_support(verdict(quote=quote), EPISODES) == (
        "the passage that the model quotes as its support is not in its episodes"
    )


def test_passage_of_more_than_600_characters_supports_nothing() -> None:
    episode = "a word " * 100
    assert extraction_verdicts.missing_support(verdict(quote=episode[:590]), [episode]) is None
    assert extraction_verdicts.missing_support(verdict(quote=episode), [episode]) == (
        "the model quotes more than 600 characters as its support"
    )


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("contradicted", "the model says that its episodes contradict it"),
        ("not_stated", "the model says that its episodes do not state it"),
    ],
)
def test_other_verdicts_have_a_reason_whatever_they_quote(name: str, reason: str) -> None:
    assert extraction_verdicts.missing_support(verdict(name, "nil pointer"), EPISODES) == reason


def test_summary_is_one_bounded_line_of_printable_characters() -> None:
    assert verdict(difference="one\n two\x1b[31m\x00three").summary == "one two [31m three"
    assert len(verdict(difference="x" * 9_999).summary) == 200
