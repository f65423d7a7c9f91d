"""What the words of a question bring along, and what they weigh."""

from __future__ import annotations

import pytest

from knowledge_service.search.query import daily, expansion, instead, lexicon
from knowledge_service.search.text import analyser
from knowledge_service.search.text.english import STOP_WORDS


def weighted(question: str) -> dict[str, float]:
    return expansion.weighted(tuple(analyser.terms(question)))


@pytest.mark.parametrize(
    ("question", "brings", "weight"),
    [
        ("decide", "decision", 0.8),
        ("Portugal", "Portuguese", 0.8),
        ("restart", "reboot", 0.5),
        ("reside", "live", 0.5),
        ("animal", "parrot", 0.4),
        ("headgear", "bonnet", 0.3),
    ],
)
def test_word_brings_others_at_less_than_its_own_weight(
    question: str, brings: str, weight: float
) -> None:
    found = weighted(question)
    assert found[analyser.word(question.casefold())] == 1
    assert found[analyser.word(brings.casefold())] == weight


def test_what_is_said_instead_does_not_bring_what_is_asked() -> None:
    assert analyser.word("grew") in weighted("upbringing")
    assert analyser.word("upbringing") not in weighted("grew")


def test_words_that_say_little_weigh_little() -> None:
    found = weighted("what kind of thing happened to the tower")
    assert found[analyser.word("kind")] == 0.4
    assert found[analyser.word("happened")] == 0.6
    assert found[analyser.word("tower")] == 1
    assert set(weighted("kind")) == {analyser.word("kind")}


def test_question_of_many_words_brings_only_so_many() -> None:
    every = " ".join(line.split(":")[0] for line in instead.DAILY.replace("|", "\n").splitlines())
    own = set(analyser.terms(every))
    brought = [weight for term, weight in weighted(every).items() if term not in own]
    assert len(brought) <= 16 + 24 + 40 + 12 + 10


@pytest.mark.parametrize(
    "text",
    [
        instead.DAILY.strip().replace("|", "\n"),
        lexicon.INSTEAD.strip().replace("|", "\n"),
        daily.KINDS.strip().replace("\n  ", " "),
    ],
    ids=["instead", "instead of operations", "kinds"],
)
def test_each_line_names_words_and_what_they_bring(text: str) -> None:
    for line in text.splitlines():
        names, things = line.split(": ")
        assert set(names.split()).isdisjoint(things.split()), line
        assert set(names.split()).isdisjoint(STOP_WORDS), line
        assert len(things.split()) == len(set(things.split())), line


@pytest.mark.parametrize("text", [lexicon.FAMILIES, daily.FAMILIES], ids=["lexicon", "daily"])
def test_each_family_has_several_words(text: str) -> None:
    for line in text.strip().replace("\n", "|").split("|"):
        assert len(set(line.split())) == len(line.split()) > 1, line
