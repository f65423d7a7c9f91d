"""The stemmer in C gives the terms that the one in Python gave, so no index is made anew for it."""

import functools
import itertools
import re
from pathlib import Path

import pytest
import Stemmer
from snowballstemmer.english_stemmer import EnglishStemmer

from knowledge_service.search import thesaurus

_TEXTS = sorted((Path(__file__).parents[3] / "docs").rglob("*.md"))
_ENDINGS = [
    "s",
    "es",
    "ed",
    "ing",
    "ly",
    "edly",
    "ingly",
    "ational",
    "tional",
    "enci",
    "anci",
    "izer",
    "ization",
    "ogist",
    "ism",
    "ness",
    "ative",
    "ful",
    "ement",
    "ment",
    "ence",
    "able",
    "y",
    "'s",
    "ied",
    "ies",
    "sses",
    "us",
    "ss",
    "eed",
]
_ODD = [
    "ångström",
    "naïve",
    "façade",
    "здоровье",
    "漢字",
    "ǆ",
    "ß",
    "ﬁ",
    "i̇",
    "1st",
    "2nd",
    "a1b2",
    "yyy",
    "yay",
    "say's",
    "sky",
    "dying",
    "news",
]


@functools.cache
def _vocabulary() -> list[str]:
    text = " ".join(path.read_text() for path in _TEXTS)
    results = set(re.findall(r"[^\W\d_]+", text.casefold())) | thesaurus.STOP_WORDS
    return sorted(results | thesaurus.IRREGULAR_FORMS.keys())


@pytest.mark.parametrize("ending", ["", *_ENDINGS])
def test_both_stemmers_agree_on_the_words_of_our_pages_with_every_ending(ending: str) -> None:
    in_c, in_python = Stemmer.Stemmer("english", 0), EnglishStemmer()
    texts = [term + ending for term in _vocabulary()]
    assert len(texts) > 1_500
    differing = [w for w in texts if in_c.stemWord(w) != in_python.stemWord(w)]
    assert differing == []


def test_both_stemmers_agree_on_odd_words_and_short_ones() -> None:
    in_c, in_python = Stemmer.Stemmer("english", 0), EnglishStemmer()
    short = (
        "".join(letters) for n in (1, 2, 3) for letters in itertools.product("aeylst'", repeat=n)
    )
    for term in (*_ODD, *short):
        assert in_c.stemWord(term) == in_python.stemWord(term)
