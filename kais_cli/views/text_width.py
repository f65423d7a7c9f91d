"""How wide text stands on a terminal: CJK and emoji take two columns, combining marks none. Pure.

Nothing is loaded for ASCII, which most tables are.
"""

from __future__ import annotations

MARK = "…"


def columns(text: str) -> int:
    """Count the columns that a line of text takes."""
    if text.isascii():
        return len(text)
    from rich import cells  # noqa: PLC0415 (only for such text)

    return cells.cell_len(text)


def padded(text: str, width: int) -> str:
    """Fill a text with spaces up to a width; a longer one stays as it is."""
    return text + " " * (width - columns(text))


def cut(text: str, width: int) -> str:
    """Shorten a text to a width, with a mark where it was cut and no character torn."""
    if columns(text) <= width:
        return text
    head, _ = split(text, max(width - 1, 0))
    return head.rstrip() + MARK


def split(text: str, width: int) -> tuple[str, str]:
    """Split a text behind the last whole character that fits in a width."""
    if text.isascii():
        return text[:width], text[width:]
    from rich import cells  # noqa: PLC0415 (only for such text)

    taken = end = 0
    for _, after, size in cells.split_graphemes(text)[0]:
        if taken + size > width:
            break
        taken, end = taken + size, after
    return text[:end], text[end:]


def wrapped(text: str, *, width: int, first: str, further: str) -> list[str]:
    """Break a text into lines; `first` and `further` stand before them.

    A word wider than a line is broken where it has wide characters, as in languages that write no
    spaces, and stays whole where it has none: ids and addresses are copied.
    """
    lines, line, is_bare = [], first, True
    for word in text.split():
        rest = word
        while rest:
            room = width - columns(line) - (not is_bare)
            head, rest = _taken(rest, room, is_bare=is_bare)
            line += ("" if is_bare else " ") * bool(head) + head
            is_bare = is_bare and not head
            if rest:
                lines.append(line)
                line, is_bare = further, True
    return [*lines, line]


def _taken(word: str, room: int, *, is_bare: bool) -> tuple[str, str]:
    """Split a word into what goes onto a line with so much room, and what is left."""
    width = columns(word)
    if width <= room:
        return word, ""
    head, rest = split(word, room) if width > len(word) else ("", word)
    return (head, rest) if head or not is_bare else (word, "")
