"""Configuration files of a host cluster, as templates with `$name` places."""

import string
from pathlib import Path

_FOLDER = Path(__file__).parent


def read(name: str, **values: object) -> str:
    """Return a file with its places filled.

    Raises:
        KeyError: the file has a place for which there is no value.
    """
    return string.Template((_FOLDER / name).read_text()).substitute(values)
