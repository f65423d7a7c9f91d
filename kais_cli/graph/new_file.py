"""Write a file that does not exist yet."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from kais_cli import errors


def write(file: Path, lines: Iterable[str]) -> int:
    """Write lines to a file that does not exist, and return their number; a failure leaves none.

    Raises:
        UsageError: the file exists, or cannot be written.
    """
    count = 0
    try:
        with file.open("x", encoding="utf-8", errors="surrogatepass") as stream:
            try:
                for line in lines:
                    stream.write(line)
                    count += 1
                stream.flush()
                os.fsync(stream.fileno())
            except BaseException:
                file.unlink(missing_ok=True)
                raise
    except OSError as exc:
        raise errors.UsageError(f"cannot write {file}: {exc.strerror}") from exc
    return count
