"""Text that can be stored and sent: JSON may contain halves of surrogate pairs, UTF-8 may not."""


def encodable(text: str) -> str:
    """Replace each half of a surrogate pair by a question mark."""
    return text.encode("utf-8", "replace").decode()
