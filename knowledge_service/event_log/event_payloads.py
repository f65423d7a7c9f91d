"""The encoding of event payloads: salted, hashed into the chain, and erasable part by part.

An event about one thing has one part; its hash is SHA-256 of salt and bytes, as in every version.
An event about several things has a line and a salt for each, and its hash is that of the parts'
hashes in order. An erased line leaves `#` and its hash, so that the chain still verifies and
nothing can be guessed.
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
_SALT_LENGTH = 16
_ERASED = b"#"
_sha256 = hashlib.sha256


class UnreadablePayload(Exception):
    """A payload differs from what was written; the database does not detect this damage."""


@dataclass(frozen=True)
class StoredPayload:
    """The columns of a payload's row."""

    salt: bytes
    data: bytes

    @property
    def hash(self) -> bytes:
        """Return the hash that the event's `payload_hash` must equal."""
        hashes = [_hash(salt, line) for salt, line in _lines(self)]
        return hashes[0] if len(hashes) == 1 else hashlib.sha256(b"".join(hashes)).digest()


def encode(parts: Sequence[Part]) -> StoredPayload:
    """Encode an event's parts."""
    return encode_lines([msgspec.json.encode(part) for part in parts])[0]


def encode_lines(lines: Sequence[bytes]) -> tuple[StoredPayload, bytes]:
    """Encode an event's parts, which are JSON already; also return the hash of the payload."""
    salts = secrets.token_bytes(_SALT_LENGTH * len(lines))
    payload = StoredPayload(salts, b"\n".join(lines))
    if len(lines) == 1:
        return payload, payload.hash
    salted = zip(range(0, len(salts), _SALT_LENGTH), lines, strict=True)
    hashes = [_sha256(salts[at : at + _SALT_LENGTH] + line).digest() for at, line in salted]
    return payload, _sha256(b"".join(hashes)).digest()


def decode(payload: StoredPayload) -> tuple[Part | None, ...]:
    """Decode the parts; an erased part is None.

    Raises:
        UnreadablePayload: the payload cannot be parsed.
    """
    try:
        lines = [line for _, line in _lines(payload)]
        return tuple([None if line.startswith(_ERASED) else json.loads(line) for line in lines])
    except ValueError as exc:
        raise UnreadablePayload("an event says nothing that can be read") from exc


def parts_containing(
    payload: StoredPayload, patterns: Sequence[bytes]
) -> Iterator[tuple[int, Part]]:
    """Yield the parts whose bytes contain one of the patterns, with their indexes."""
    for part_index, (_, line) in enumerate(_lines(payload)):
        if not line.startswith(_ERASED) and any(pattern in line for pattern in patterns):
            yield part_index, json.loads(line)


def without_parts(payload: StoredPayload, erased_indexes: Collection[int]) -> StoredPayload | None:
    """Return the payload without some parts; None when no part would be left."""
    salts, lines, remaining = [], [], 0
    for part_index, (salt, line) in enumerate(_lines(payload)):
        is_erased = line.startswith(_ERASED)
        if is_erased or part_index in erased_indexes:
            salts.append(bytes(_SALT_LENGTH))
            lines.append(line if is_erased else _ERASED + _hash(salt, line).hex().encode())
        else:
            remaining += 1
            salts.append(salt)
            lines.append(line)
    return StoredPayload(b"".join(salts), b"\n".join(lines)) if remaining else None


def _lines(payload: StoredPayload) -> list[tuple[bytes, bytes]]:
    if len(payload.salt) == _SALT_LENGTH:
        return [(payload.salt, payload.data)]
    salts = [
        payload.salt[at : at + _SALT_LENGTH] for at in range(0, len(payload.salt), _SALT_LENGTH)
    ]
    return list(zip(salts, payload.data.split(b"\n"), strict=True))


def _hash(salt: bytes, line: bytes) -> bytes:
    if line.startswith(_ERASED):
        return bytes.fromhex(line[1:].decode())
    return hashlib.sha256(salt + line).digest()
