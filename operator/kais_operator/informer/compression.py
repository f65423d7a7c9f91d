"""Compresses the JSON of objects with a dictionary, because objects of one kind are similar.

The dictionary is the first object of the kind. That leaves a tenth of the size.
"""

from __future__ import annotations

import zlib

_WINDOW = -13  # 8 KiB without header: a Deployment has 5 KB, and most objects have less
_MEMORY = 5
_LEVEL = 3
DICTIONARY_BYTES = 8192
"""Earlier bytes of a dictionary would be outside of the window."""


def compress(text: bytes, dictionary: bytes) -> bytes:
    """Compress a text with a dictionary."""
    compressor = zlib.compressobj(
        _LEVEL, zlib.DEFLATED, _WINDOW, _MEMORY, zlib.Z_DEFAULT_STRATEGY, dictionary
    )
    return compressor.compress(text) + compressor.flush()


def decompress(compressed: bytes, dictionary: bytes) -> bytes:
    """Decompress a text; needs the dictionary that it was compressed with."""
    return zlib.decompressobj(_WINDOW, dictionary).decompress(compressed)
