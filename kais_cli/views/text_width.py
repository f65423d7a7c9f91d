"""The width of text on a terminal: CJK and emoji take two columns, combining marks none. Pure.

The width tables are not loaded for ASCII, which most tables are.
"""

from __future__ import annotations

ELLIPSIS = "…"


def column_count(text: str) -> int:
    """Return the number of columns of a line of text."""
    if text.isascii():
        return len(text)
    from rich import cells  # noqa: PLC0415 (only for such text)

    return cells.cell_len(text)


def pad(text: str, width: int) -> str:
    """Pad a text with spaces to a width; a longer one is unchanged."""
    return text + " " * (width - column_count(text))


def truncate(text: str, width: int) -> str:
    """Shorten a text to a width, with a mark at the cut; never splits a character."""
    if column_count(text) <= width:
        return text
    head, _ = split(text, max(width - 1, 0))
    return head.rstrip() + ELLIPSIS


def split(text: str, width: int) -> tuple[str, str]:
    """Split a text after the last whole character that fits in a width."""
    if text.isascii():
        return text[:width], text[width:]
    from rich import cells  # noqa: PLC0415 (only for such text)

    used_columns = end = 0
    for _, cluster_end, size in cells.split_graphemes(text)[0]:
        if used_columns + size > width:
            break
        used_columns, end = used_columns + size, cluster_end
    return text[:end], text[end:]


def wrap(text: str, *, width: int, first: str, further: str) -> list[str]:
    """Wrap a text; `first` and `further` are the prefixes of the lines.

    A word that is wider than a line is split if it has wide characters, as in languages without
    spaces. Otherwise it stays whole: ids and addresses are copied.
    """
    lines, line, is_bare = [], first, True
    for token in text.split():
        rest = token
        while rest:
            available = width - column_count(line) - (not is_bare)
            head, rest = _split_token(rest, available, is_bare=is_bare)
            line += ("" if is_bare else " ") * bool(head) + head
            is_bare = is_bare and not head
            if rest:
                lines.append(line)
                line, is_bare = further, True
    return [*lines, line]


def _split_token(token: str, available: int, *, is_bare: bool) -> tuple[str, str]:
    """Split a word into the part that fits on a line, and the rest."""
    width = column_count(token)
    if width <= available:
        return token, ""
    head, rest = split(token, available) if width > len(token) else ("", token)
    return (head, rest) if head or not is_bare else (token, "")
