"""Made-up text whose words are as frequent as in natural text: the same for the same seed."""

from __future__ import annotations

import itertools
import random
import re
from collections import Counter
from collections.abc import Sequence

_SOUNDS = "ka lo mi re tu sa no pe vi du ro ge ban tor lin mex fal quo zer hup dra sto ple cri"
_SYLLABLES = _SOUNDS.split()
_VOCABULARY = 30_000
_IDENTIFIERS = 2_000
_WORD = re.compile(r"\w+(?:[-./:]\w+)*")
Vocabulary = tuple[Sequence[str], Sequence[float]]
"""Words, and the sums of their frequencies up to each."""


def made_up_words() -> Vocabulary:
    """Return 30,000 words of no language; word n comes in proportion to 1/(n + 10)."""
    rng = random.Random(1)  # noqa: S311 - made-up text, no secret
    words = [
        "".join(rng.choices(_SYLLABLES, k=rng.choice((2, 3, 3, 4)))) for _ in range(_VOCABULARY)
    ]
    for index in range(300, 300 + 10 * _IDENTIFIERS, 10):
        words[index] = f"{words[index]}_{words[index + 1]}-{index}"
    return words, list(itertools.accumulate(1 / (n + 10) for n in range(_VOCABULARY)))


def natural_words() -> Vocabulary:
    """Return the words of meetings and of operations, half and half, as often as these say them."""
    from bench.recall import meetings, sets  # noqa: PLC0415 (only this reads the sets)

    spoken, written = Counter[str](), Counter[str]()
    for meeting in meetings.read(0):
        spoken.update(_WORD.findall("\n".join(turn["text"] for turn in meeting["turns"])))
    for fact in sets.operations().facts.values():
        written.update(_WORD.findall(fact.content))
    share = spoken.total() / written.total()
    words = sorted(spoken | written)
    return words, list(itertools.accumulate(spoken[word] + share * written[word] for word in words))


VOCABULARIES = {"made up": made_up_words, "natural": natural_words}


class Texts:
    """Sentences over a vocabulary, made up unless another is given."""

    def __init__(self, seed: int, vocabulary: Vocabulary | None = None) -> None:
        self._words, self._weights = vocabulary or made_up_words()
        self._random = random.Random(seed)  # noqa: S311 - made-up text, no secret

    def sentence(self, shortest: int, longest: int) -> str:
        """Return a sentence of so many words."""
        count = self._random.randint(shortest, longest)
        return " ".join(self._random.choices(self._words, cum_weights=self._weights, k=count))

    def fact(self, number: int) -> str:
        """Return the text of a fact; no two numbers give the same."""
        return f"{self.sentence(12, 24)} n{number}"

    def question(self) -> str:
        """Return a question of 10 to 20 words."""
        return self.sentence(10, 20)
