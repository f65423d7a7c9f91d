"""The write gate for secrets.

What looks like one is masked before anything is hashed, logged or stored. Pure.

The patterns name forms that are secrets by construction; guessing by entropy comes with the scopes'
own rules.
"""

from __future__ import annotations

import re
from typing import Any

MASK = "[masked]"

# Every repetition has a bound: text comes from anybody, and masking is on the way of each write.
_WHOLE = re.compile(
    "|".join(
        (
            r"-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)",
            r"\beyJ[\w-]{8,2000}\.[\w-]{8,2000}\.[\w-]{8,}",  # JSON web token
            r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b",  # AWS access key
            r"\bgh[pousr]_[A-Za-z0-9]{36,}\b",
            r"\bgithub_pat_\w{22,}\b",
            r"\bglpat-[\w-]{20,}",
            r"\bsk-[A-Za-z0-9_-]{20,}",  # model providers
            r"\bxox[abprs]-[A-Za-z0-9-]{10,}",
            r"\bAIza[\w-]{35}",
            r"\bnpm_[A-Za-z0-9]{36}\b",
        )
    )
)
# A name that says so, then the value: the name stays, so that the sentence can still be read.
_NAMED = re.compile(
    r"""(?ix)(\b[\w-]{0,40}(?:password|passwd|secret|api[_-]?key|access[_-]?key|auth[_-]?token|access[_-]?token)
    ["']?\s*[:=]\s*["']?)(?!\[masked\])([^\s"',;}]{6,})"""
)
_BEARER = re.compile(r"(?i)(\bbearer\s+)([\w.~+/-]{16,}=*)")
_URL = re.compile(r"(\b[a-z][a-z0-9+.-]{0,20}://[^\s:/@]{1,100}:)([^\s/@]{1,500})(@)")


# What a text has in small letters when one of the above can match: looking for these costs a
# hundredth of the patterns, and nearly every text has none.
_TELLTALE = (
    "://", "-----", "eyj", "akia", "asia", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_",
    "glpat-", "sk-", "xox", "aiza", "npm_", "password", "passwd", "secret", "key", "token",
    "bearer",
)  # fmt: skip


def mask(text: str) -> str:
    """Return the text with its secrets masked."""
    small = text.lower()
    for sign in _TELLTALE:
        if sign in small:
            return _masked(text)
    return text


def _masked(text: str) -> str:
    text = _WHOLE.sub(MASK, text)
    text = _URL.sub(rf"\1{MASK}\3", text)
    text = _BEARER.sub(rf"\1{MASK}", text)
    return _NAMED.sub(rf"\1{MASK}", text)


def mask_tree(value: Any) -> Any:
    """Return JSON data with the secrets in its strings masked, keys included in the judgement."""
    if isinstance(value, str):
        return mask(value)
    if isinstance(value, list):
        return [mask_tree(item) for item in value]
    if isinstance(value, dict):
        return {key: _mask_item(key, item) for key, item in value.items()}
    return value


def _mask_item(key: str, item: Any) -> Any:
    if isinstance(item, str) and mask(f"{key}={item}") != f"{key}={item}" and mask(item) == item:
        return MASK
    return mask_tree(item)
