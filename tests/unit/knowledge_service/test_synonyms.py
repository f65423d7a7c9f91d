"""What the words of a question bring along, and what they weigh."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import resources
from importlib.resources.abc import Traversable

import pytest

from knowledge_service.search import thesaurus
from knowledge_service.search.query import expansion
from knowledge_service.search.text import analyser


def weighted(question: str) -> Mapping[str, float]:
    return expansion.expand_terms(tuple(analyser.terms(question))).weights


@pytest.mark.parametrize(
    ("question", "brings"),
    [("decide", "decision"), ("restart", "reboot"), ("certificate", "tls")],
)
def test_word_brings_others_at_less_than_its_own_weight(question: str, brings: str) -> None:
    result = weighted(question)
    assert result[analyser.stem(question)] == 1
    assert result[analyser.stem(brings)] == 0.8


@pytest.mark.parametrize("question", ["animal", "holiday", "upbringing", "Portugal", "reside"])
def test_words_of_daily_life_add_no_others(question: str) -> None:
    assert list(weighted(question)) == [analyser.stem(question.casefold())]


def test_words_that_say_little_weigh_little() -> None:
    result = weighted("what kind of thing happened to the tower")
    assert result[analyser.stem("kind")] == 0.4
    assert result[analyser.stem("happened")] == 0.6
    assert result[analyser.stem("tower")] == 1
    assert set(weighted("kind")) == {analyser.stem("kind")}


def test_question_of_many_words_brings_only_so_many() -> None:
    interval = " ".join(group[0] for group in thesaurus.SYNONYMS + thesaurus.DERIVATIONS)
    own_terms = set(analyser.terms(interval))
    brought = [weight for term, weight in weighted(interval).items() if term not in own_terms]
    assert len(brought) <= 16 + 24


def test_each_group_has_several_words_and_none_twice() -> None:
    for group in thesaurus.DERIVATIONS + thesaurus.SYNONYMS:
        assert len(set(group)) == len(group) > 1, group


@pytest.mark.parametrize("name", ["derivations.txt", "synonyms.txt"])
def test_each_group_of_an_expansion_table_names_its_source(name: str) -> None:
    lines = (resources.files(thesaurus) / name).read_text("utf-8").splitlines()
    source = ""
    for line in lines:
        if line.startswith("# Source: "):
            source = line.removeprefix("# Source: ").strip()
        elif line and not line.startswith("#"):
            assert source, line


FILES = sorted(item for item in resources.files(thesaurus).iterdir() if item.name.endswith(".txt"))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_each_table_says_where_it_comes_from_and_how_to_extend_it(file: Traversable) -> None:
    header = [line for line in file.read_text("utf-8").splitlines() if line.startswith("#")]
    for field in ("# Format: ", "# Origin: ", "# To extend: "):
        assert any(line.startswith(field) for line in header), field
