"""Texts of one kind are packed against each other, and come back to the letter."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kais_operator.informer import compression

LIKE = b'{"kind":"Cell","metadata":{"name":"%d","labels":{"kais.io/formation":"team"}}}'


@given(st.binary(max_size=10_000), st.binary(max_size=compression.DICTIONARY_BYTES))
def test_a_text_comes_back_to_the_letter(text, pattern):
    assert compression.decompress(compression.compress(text, pattern), pattern) == text


def test_texts_alike_take_little():
    assert len(compression.compress(LIKE % 1234, LIKE % 1)) < len(LIKE) / 3


def test_an_object_as_long_as_a_deployment_takes_little():
    content = b"".join(b'{"name":"VARIABLE_%d","value":"%d"},' % (n, n * n) for n in range(150))
    deployment, another = b'{"name":"one",' + content, b'{"name":"another",' + content
    assert 5_000 < len(deployment) < compression.DICTIONARY_BYTES
    assert len(compression.compress(another, deployment)) < len(another) / 20


@pytest.mark.parametrize("size", [100_000, 1_500_000])
def test_a_text_at_the_limit_of_etcd_comes_back(size):
    text = bytes(range(256)) * (size // 256)
    assert compression.decompress(compression.compress(text, LIKE), LIKE) == text
