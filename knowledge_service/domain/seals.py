"""Positions that leave the service: encrypted, authenticated, bound to what they are for. Pure.

A token is a nonce, the position under a key stream that HMAC-SHA256 draws from the nonce, and an
HMAC over both and the purpose. Two tokens of one position share nothing, and none tells how many
events others made.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from dataclasses import dataclass

_NONCE, _MAC = 12, 16
_LONGEST = 512


class Unsealed(Exception):
    """The token is none that was sealed with this key for this purpose."""


@dataclass(frozen=True)
class Seal:
    """Seals texts for one purpose, as for the stream of one principal."""

    key: bytes
    purpose: str

    def close(self, text: str, nonce: bytes) -> str:
        """Make a token; the nonce must be random and new."""
        hidden = self._hide(text.encode(), nonce)
        token = nonce + hidden + self._mac(nonce + hidden)
        return base64.urlsafe_b64encode(token).decode().rstrip("=")

    def open(self, token: str) -> str:
        """Read a token back.

        Raises:
            Unsealed: it was made up, or for something else.
        """
        if len(token) > _LONGEST or not token.isascii():
            raise Unsealed
        try:
            raw = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))
        except (binascii.Error, ValueError) as exc:
            raise Unsealed from exc
        nonce, hidden, mac = raw[:_NONCE], raw[_NONCE:-_MAC], raw[-_MAC:]
        if len(raw) <= _NONCE + _MAC or not hmac.compare_digest(mac, self._mac(nonce + hidden)):
            raise Unsealed
        return self._hide(hidden, nonce).decode()

    def _hide(self, data: bytes, nonce: bytes) -> bytes:
        stream = b""
        while len(stream) < len(data):
            count = len(stream).to_bytes(4, "big")
            stream += hmac.digest(self.key, b"stream" + nonce + count, hashlib.sha256)
        return bytes(a ^ b for a, b in zip(data, stream, strict=False))

    def _mac(self, data: bytes) -> bytes:
        bound = b"mac" + self.purpose.encode() + b"\0" + data
        return hmac.digest(self.key, bound, hashlib.sha256)[:_MAC]
