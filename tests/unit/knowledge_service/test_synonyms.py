"""What the words of a question bring along, and what they weigh."""

from __future__ import annotations

from importlib import resources
from importlib.resources.abc import Traversable

import pytest

from knowledge_service.search import thesaurus
from knowledge_service.search.query import expansion
from knowledge_service.search.text import analyser
from knowledge_service.search.thesaurus import Expansion


def weighted(question: str) -> dict[str, float]:
    return expansion.expand_terms(tuple(analyser.terms(question)))


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
    assert found[analyser.stem(question.casefold())] == 1
    assert found[analyser.stem(brings.casefold())] == weight


def test_what_is_said_instead_does_not_bring_what_is_asked() -> None:
    assert analyser.stem("grew") in weighted("upbringing")
    assert analyser.stem("upbringing") not in weighted("grew")


def test_words_that_say_little_weigh_little() -> None:
    found = weighted("what kind of thing happened to the tower")
    assert found[analyser.stem("kind")] == 0.4
    assert found[analyser.stem("happened")] == 0.6
    assert found[analyser.stem("tower")] == 1
    assert set(weighted("kind")) == {analyser.stem("kind")}


def test_question_of_many_words_brings_only_so_many() -> None:
    every = " ".join(word for words, _ in thesaurus.PARAPHRASES_EVERYDAY for word in words)
    own = set(analyser.terms(every))
    brought = [weight for term, weight in weighted(every).items() if term not in own]
    assert len(brought) <= 16 + 24 + 40 + 12 + 10


@pytest.mark.parametrize(
    "table",
    [
        thesaurus.HYPONYMS_EVERYDAY,
        thesaurus.PARAPHRASES,
        thesaurus.PARAPHRASES_EVERYDAY,
    ],
    ids=["everyday hyponyms", "paraphrases", "everyday paraphrases"],
)
def test_each_line_names_words_and_what_they_bring(table: tuple[Expansion, ...]) -> None:
    for words, others in table:
        assert set(words).isdisjoint(others), words
        assert set(words).isdisjoint(thesaurus.STOP_WORDS), words
        assert len(others) == len(set(others)), words


def test_each_group_of_derivations_has_several_words() -> None:
    for group in thesaurus.DERIVATIONS + thesaurus.DERIVATIONS_EVERYDAY:
        assert len(set(group)) == len(group) > 1, group


FILES = sorted(each for each in resources.files(thesaurus).iterdir() if each.name.endswith(".txt"))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_each_table_says_where_it_comes_from_and_how_to_extend_it(file: Traversable) -> None:
    header = [line for line in file.read_text("utf-8").splitlines() if line.startswith("#")]
    for field in ("# Format: ", "# Origin: ", "# To extend: "):
        assert any(line.startswith(field) for line in header), field
