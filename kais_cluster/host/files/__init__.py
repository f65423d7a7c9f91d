"""Templates of the configuration files of a host cluster, with `$name` placeholders."""

import string
from pathlib import Path

_FOLDER = Path(__file__).parent


def read(name: str, **values: object) -> str:
    """Return a file with its placeholders filled in.

    Raises:
        KeyError: A placeholder has no value.
    """
    return string.Template((_FOLDER / name).read_text()).substitute(values)
