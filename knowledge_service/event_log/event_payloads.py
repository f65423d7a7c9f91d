"""How an event's payload is kept: salted, hashed into the chain, and erasable a part at a time.

An event about one thing has one part: its hash is SHA-256 of salt and bytes, as it always was. An
event about many has a line and a salt for each, and its hash is that of the parts' hashes in order;
an erased line leaves `#` and its hash, so that the chain still verifies and nothing can be guessed.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

Part = Mapping[str, Any]
_SALT = 16
_GONE = b"#"
_sha256 = hashlib.sha256


class Unreadable(Exception):
    """A payload is not what was written: damage that the database does not notice."""


@dataclass(frozen=True)
class Sealed:
    """The columns of a payload's row."""

    salt: bytes
    data: bytes

    @property
    def hash(self) -> bytes:
        """Return what the event's `payload_hash` must be."""
        hashes = [_hash(salt, line) for salt, line in _lines(self)]
        return hashes[0] if len(hashes) == 1 else hashlib.sha256(b"".join(hashes)).digest()


def seal(parts: Sequence[Part]) -> Sealed:
    """Write an event's parts."""
    return seal_lines([msgspec.json.encode(part) for part in parts])[0]


def seal_lines(lines: Sequence[bytes]) -> tuple[Sealed, bytes]:
    """Seal an event's parts as they are written already; returned with the hash of all of them."""
    salts = secrets.token_bytes(_SALT * len(lines))
    sealed = Sealed(salts, b"\n".join(lines))
    if len(lines) == 1:
        return sealed, sealed.hash
    salted = zip(range(0, len(salts), _SALT), lines, strict=True)
    hashes = [_sha256(salts[at : at + _SALT] + line).digest() for at, line in salted]
    return sealed, _sha256(b"".join(hashes)).digest()


def unseal(sealed: Sealed) -> tuple[Part | None, ...]:
    """Read the parts back; None for one that was erased.

    Raises:
        Unreadable: they are none.
    """
    try:
        lines = [line for _, line in _lines(sealed)]
        return tuple([None if line.startswith(_GONE) else json.loads(line) for line in lines])
    except ValueError as exc:
        raise Unreadable("an event says nothing that can be read") from exc


def mentioning(sealed: Sealed, marks: Sequence[bytes]) -> Iterator[tuple[int, Part]]:
    """Go through the parts, by their places, whose bytes have one of these: few of many."""
    for place, (_, line) in enumerate(_lines(sealed)):
        if not line.startswith(_GONE) and any(mark in line for mark in marks):
            yield place, json.loads(line)


def erase(sealed: Sealed, places: Collection[int]) -> Sealed | None:
    """Take the parts at some places out; None when nothing would be left."""
    salts, lines, left = [], [], 0
    for place, (salt, line) in enumerate(_lines(sealed)):
        is_gone = line.startswith(_GONE)
        if is_gone or place in places:
            salts.append(bytes(_SALT))
            lines.append(line if is_gone else _GONE + _hash(salt, line).hex().encode())
        else:
            left += 1
            salts.append(salt)
            lines.append(line)
    return Sealed(b"".join(salts), b"\n".join(lines)) if left else None


def _lines(sealed: Sealed) -> list[tuple[bytes, bytes]]:
    if len(sealed.salt) == _SALT:
        return [(sealed.salt, sealed.data)]
    salts = [sealed.salt[at : at + _SALT] for at in range(0, len(sealed.salt), _SALT)]
    return list(zip(salts, sealed.data.split(b"\n"), strict=True))


def _hash(salt: bytes, line: bytes) -> bytes:
    if line.startswith(_GONE):
        return bytes.fromhex(line[1:].decode())
    return hashlib.sha256(salt + line).digest()
