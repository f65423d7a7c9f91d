"""Made-up text whose words are as frequent as in natural text: the same for the same seed."""

from __future__ import annotations

import itertools
import random

_SOUNDS = "ka lo mi re tu sa no pe vi du ro ge ban tor lin mex fal quo zer hup dra sto ple cri"
_SYLLABLES = _SOUNDS.split()
_VOCABULARY = 30_000
_IDENTIFIERS = 2_000


class Texts:
    """Sentences over 30,000 words; word n comes in proportion to 1/(n + 10)."""

    def __init__(self, seed: int) -> None:
        rng = random.Random(1)  # noqa: S311 - made-up text, no secret
        vocabulary = [
            "".join(rng.choices(_SYLLABLES, k=rng.choice((2, 3, 3, 4)))) for _ in range(_VOCABULARY)
        ]
        for index in range(300, 300 + 10 * _IDENTIFIERS, 10):
            vocabulary[index] = f"{vocabulary[index]}_{vocabulary[index + 1]}-{index}"
        self._words = vocabulary
        self._weights = list(itertools.accumulate(1 / (n + 10) for n in range(_VOCABULARY)))
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
