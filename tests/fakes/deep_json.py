"""JSON that nests as deeply as the API server accepts, written without recursion."""

LEVELS = 9_000
"""The API server accepts 10,000."""


def nest(content: bytes, levels: int, *, before: bytes = b'"metadata"') -> bytes:
    """Insert a member with a value of so many levels before another member, where it is first."""
    deep = b'{"a":' * (levels // 2) + b"[" * (levels // 2)
    deep += b"]" * (levels // 2) + b"}" * (levels // 2)
    return content.replace(before, b'"deep":' + deep + b"," + before, 1)
