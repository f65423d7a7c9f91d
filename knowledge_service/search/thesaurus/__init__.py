"""The thesaurus and the word lists of the analyser, loaded from data files next to this module.

The header of each file gives its source and explains how to extend it. Lines that begin with `#`
are comments. The tables are read once, when this module is imported.
"""

from __future__ import annotations

from importlib import resources

Group = tuple[str, ...]
"""The words of one line."""


def _lines(name: str) -> tuple[str, ...]:
    text = (resources.files(__name__) / f"{name}.txt").read_text("utf-8")
    return tuple(line for line in text.splitlines() if line and not line.startswith("#"))


def _words(name: str) -> Group:
    return tuple(word for line in _lines(name) for word in line.split())


def _groups(name: str) -> tuple[Group, ...]:
    return tuple(tuple(line.split()) for line in _lines(name))


DERIVATIONS = _groups("derivations")
SYNONYMS = _groups("synonyms")
STOP_WORDS = frozenset(_words("stop_words"))
WEAK_WORDS = frozenset(_words("weak_words"))
QUERY_STOP_WORDS = frozenset(_words("query_stop_words"))
IRREGULAR_FORMS = {form: group[0] for group in _groups("irregular_forms") for form in group}
"""Maps an irregular form, plural, spelling or small number in words to the indexed form."""
