"""Unicode normalization in linear time.

The reference algorithm sorts each run of combining marks. The standard library uses insertion
sort: 8,192 marks in descending order take a tenth of a second. No writing system uses more than 30
marks in a row (UAX #15, Stream-Safe Text Format), so longer runs are normalized in pieces of that
length.
"""

import functools
import re
import unicodedata
from typing import Literal

Form = Literal["NFC", "NFD", "NFKC", "NFKD"]

_LONGEST_RUN = 30
# No combining mark has a code point beyond this one.
_LAST_MARK = 0x1FFFF
# Characters of combining class 0 whose decomposition begins with a mark.
_DECOMPOSED_TO_MARKS = (0x0F73, 0x0F75, 0x0F81, 0xFF9E, 0xFF9F)


def normalized(form: Form, text: str) -> str:
    """Return the text in a normalization form; ASCII text is returned unchanged."""
    if text.isascii():
        return text
    if _long_run().search(text) is None:
        return unicodedata.normalize(form, text)
    return "".join(unicodedata.normalize(form, piece) for piece in _pieces().findall(text))


def without_marks(text: str) -> str:
    """Remove combining marks, so that no sorting is needed."""
    return text if text.isascii() else _marks().sub("", text)


@functools.cache
def _class() -> str:
    """Return a regular expression for the characters that a normalization may reorder."""
    marks = [n for n in range(0x300, _LAST_MARK + 1) if unicodedata.combining(chr(n))]
    parts: list[list[int]] = []
    for number in sorted([*marks, *_DECOMPOSED_TO_MARKS]):
        if parts and parts[-1][1] == number - 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return "".join(f"\\U{first:08x}-\\U{last:08x}" for first, last in parts)


@functools.cache
def _long_run() -> re.Pattern[str]:
    return re.compile(f"[{_class()}]{{{_LONGEST_RUN + 1}}}")


@functools.cache
def _pieces() -> re.Pattern[str]:
    mark = _class()
    return re.compile(f"[^{mark}]+[{mark}]{{0,{_LONGEST_RUN}}}|[{mark}]{{1,{_LONGEST_RUN}}}")


@functools.cache
def _marks() -> re.Pattern[str]:
    return re.compile(f"[{_class()}]+")
