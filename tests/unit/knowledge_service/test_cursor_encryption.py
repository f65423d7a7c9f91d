"""Event ids and cursors: by the house's library, each purpose with a key of its own."""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from hypothesis import given
from hypothesis import strategies as st

from knowledge_service.domain.cursor_encryption import CursorCipher, InvalidCursor

KEY, NONCE = bytes(range(32)), bytes(range(12))
PURPOSE = "events/demo/lead-0"


def before(text: str) -> str:
    """Make a token as versions before this one did."""
    stream = hmac.digest(KEY, b"stream" + NONCE + bytes(4), hashlib.sha256)
    hidden = bytes(a ^ b for a, b in zip(text.encode(), stream, strict=False))
    bound = b"mac" + PURPOSE.encode() + b"\0" + NONCE + hidden
    token = NONCE + hidden + hmac.digest(KEY, bound, hashlib.sha256)[:16]
    return base64.urlsafe_b64encode(token).decode().rstrip("=")


@given(st.text(min_size=1, max_size=100))
def test_text_comes_back(text: str) -> None:
    seal = CursorCipher(KEY, PURPOSE)
    assert seal.decrypt(seal.encrypt(text, secrets.token_bytes(12))) == text


def test_token_is_aes_gcm_under_a_key_derived_for_its_purpose_which_is_its_associated_data() -> (
    None
):
    purpose = PURPOSE.encode()
    info = b"kais/seal/v2\0" + purpose
    key = HKDF(algorithm=hashes.SHA256(), length=32, salt=None, info=info).derive(KEY)
    expected = NONCE + AESGCM(key).encrypt(NONCE, b"42", purpose)
    token = CursorCipher(KEY, PURPOSE).encrypt("42", NONCE)
    assert base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)) == expected


@pytest.mark.parametrize("foreign", ["events/demo/lead-1", "audit/demo/lead-0/", ""])
def test_token_of_another_purpose_is_none(foreign: str) -> None:
    token = CursorCipher(KEY, foreign).encrypt("42", NONCE)
    with pytest.raises(InvalidCursor):
        CursorCipher(KEY, PURPOSE).decrypt(token)


def test_token_of_another_store_is_none() -> None:
    with pytest.raises(InvalidCursor):
        CursorCipher(KEY, PURPOSE).decrypt(CursorCipher(bytes(32), PURPOSE).encrypt("42", NONCE))


def test_no_bit_of_a_token_may_change() -> None:
    seal = CursorCipher(KEY, PURPOSE)
    raw = base64.urlsafe_b64decode(seal.encrypt("0" * 18, NONCE) + "==")
    for location in range(len(raw) * 8):
        flipped = bytearray(raw)
        flipped[location // 8] ^= 1 << location % 8
        with pytest.raises(InvalidCursor):
            seal.decrypt(base64.urlsafe_b64encode(bytes(flipped)).decode())


@pytest.mark.parametrize("token", ["", "AA", "ü", "=" * 9, "A" * 39, "A" * 513, before("42")])
def test_what_is_no_token_of_today_is_refused(token: str) -> None:
    with pytest.raises(InvalidCursor):
        CursorCipher(KEY, PURPOSE).decrypt(token)
