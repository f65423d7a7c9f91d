"""Encrypts what clients keep for the service: cursors of the event stream and audit log, tickets.

Pure.

A token is a nonce and the position, encrypted with AES-256-GCM (SP 800-38D). Each purpose has its
own key, derived by HKDF-SHA256 (RFC 5869) from the secret of the store; the purpose is the
associated data of its tokens. Two tokens of one position have nothing in common, and no token
reveals how many events others made. The library is loaded with the first token: it takes 7 MiB, and
many services never make one.
"""

from __future__ import annotations

import base64
import binascii
import functools

_NONCE, _TAG, _KEY = 12, 16, 32
_MAX_LENGTH = 512


class InvalidCursor(Exception):
    """The cursor was not encrypted with this key for this purpose."""


class CursorCipher:
    """Encrypts texts for one purpose, such as the event stream of one principal."""

    def __init__(self, key: bytes, purpose: str, *, max_length: int = _MAX_LENGTH) -> None:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # noqa: PLC0415 (7 MiB)

        self._purpose = purpose.encode()
        self._max_length = max_length
        self._cipher = AESGCM(_key_for(key, self._purpose))

    def encrypt(self, text: str, nonce: bytes) -> str:
        """Return a token for the text; the nonce has 12 bytes and must be random and unused."""
        token = nonce + self._cipher.encrypt(nonce, text.encode(), self._purpose)
        return base64.urlsafe_b64encode(token).decode().rstrip("=")

    def decrypt(self, token: str) -> str:
        """Return the text of a token.

        Raises:
            InvalidCursor: it is forged, or made for another purpose or by an earlier version.
        """
        from cryptography.exceptions import InvalidTag  # noqa: PLC0415 (loaded with the cipher)

        if len(token) > self._max_length or not token.isascii():
            raise InvalidCursor
        try:
            raw = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))
        except (binascii.Error, ValueError) as exc:
            raise InvalidCursor from exc
        if len(raw) <= _NONCE + _TAG:
            raise InvalidCursor
        try:
            text = self._cipher.decrypt(raw[:_NONCE], raw[_NONCE:], self._purpose)
        except InvalidTag as exc:
            raise InvalidCursor from exc
        return text.decode()


# A few purposes are used often; 1,024 is an arbitrary bound.
@functools.lru_cache(maxsize=1024)
def _key_for(key: bytes, purpose: bytes) -> bytes:
    from cryptography.hazmat.primitives import hashes  # noqa: PLC0415 (loaded with the cipher)
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF  # noqa: PLC0415 (the same)

    kdf = HKDF(algorithm=hashes.SHA256(), length=_KEY, salt=None, info=b"kais/seal/v2\0" + purpose)
    return kdf.derive(key)
