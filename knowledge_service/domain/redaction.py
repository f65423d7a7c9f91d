"""The write gate for secrets.

Apparent secrets are masked before anything is hashed, logged or stored. Pure.

Three things look like a secret: a format that only secrets have; a telling name next to a value
that can be a secret; a long word with the entropy of a random key. References to the place of a
secret (`${DB_PASSWORD}`, `secretKeyRef`, a path) are not secrets, nor are digests.
"""

from __future__ import annotations

import functools
import re
import string
from collections.abc import Mapping
from typing import Any

MASK = "[masked]"

# The text is untrusted, and every write is masked, so no repetition may start at many positions and
# continue far from each. Each repetition is short, or starts only at the start of a run.
_WHOLE_SECRET = re.compile(
    # One boundary for all formats, so that most positions fail at the first letter of each.
    r"\b(?:"
    + "|".join(
        (
            r"AKIA[A-Z0-9]{16}\b",  # AWS access key
            r"ASIA[A-Z0-9]{16}\b",
            r"gh[pousr]_[A-Za-z0-9]{36,}+\b",
            r"github_pat_\w{22,}+\b",
            r"gl(?:pat|ptt|dt|rt|ft|soat|agent|sa)[-_][\w-]{20,}+",
            r"glc_[A-Za-z0-9+/=]{32,}+",
            r"sk-[A-Za-z0-9_-]{20,}+",  # model providers
            r"[sr]k_(?:live|test)_[A-Za-z0-9]{16,}+\b",
            r"xox[abeprs]-[A-Za-z0-9-]{10,}+",
            r"hooks\.slack\.com/services/[\w/-]{20,}+",
            r"AIza[\w-]{35}",
            r"ya29\.[\w-]{20,}+",
            r"npm_[A-Za-z0-9]{36}\b",
            r"pypi-[\w-]{50,}+",
            r"hf_[A-Za-z0-9]{30,}+\b",
            r"SG\.[\w-]{16,64}+\.[\w-]{16,}+",
            r"dckr_pat_[\w-]{20,}+",
            r"do[opr]_v1_[a-f0-9]{64}\b",
            r"hv[sbr]\.[\w-]{20,}+",
            r"dapi[a-f0-9]{32}\b",
            r"shp(?:at|ca|pa|ss)_[a-fA-F0-9]{32}\b",
            r"lin_api_[A-Za-z0-9]{40}\b",
            r"NRAK-[A-Z0-9]{27}\b",
            r"AGE-SECRET-KEY-1[A-Z0-9]{58}\b",
            r"\d{8,10}+:AA[\w-]{33}\b",  # bots of a messenger
        )
    )
    + ")"
)
_PRIVATE_KEY = re.compile(
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)"
)
# A JSON Web Token. If no token starts at the first `eyJ` of a run, none starts at a later one.
_JWT = re.compile(r"(?<![\w-])(?>([\w-]*?)\beyJ)[\w-]{8,}+\.[\w-]{8,}+\.[\w-]{8,}+")
_SIGNED_ADDRESS = re.compile(r"(?<=[?&]sig=)[\w%+/=-]{30,}+")
# A telling name, then the value. The name is kept, so that the sentence stays readable. The first
# letter is separate because a search for a few letters is many times faster.
_NAMED_SECRET = re.compile(
    r"""(?x)([pscatPSCAT](?i:
        (?<=p)(?:ass(?:word|wd|phrase)|wd|rivate[_-]?key)
        |(?<=s)ecret(?:[_-]?key)?
        |(?<=c)redential
        |(?<=a)(?:pi[_-]?key|c(?:cess[_-]?(?:key|token)|count[_-]?key)|uth[_-]?token)
        |(?<=t)(?<![a-z]t)oken)
    ["']?)(\s*+[:=]\s*+["']?|\ (?:is|was)\ ["']?)(?!\[masked\])([^\s"',;}\])]{6,500})"""
)
_REFERENCE = re.compile(r"[$<{/*(%&~]|\w+://|\[|(?i:secret|env|vault|file|configmap|redacted)[:/*]")
_BEARER = re.compile(
    r"(\b(?:[bB](?i:earer)\s++|[bB](?i:asic)\s++(?=[\w+/-]{0,400}\d)))([\w.~+/-]{16,}+=*)"
)
_URL = re.compile(r"(?<=[\w+.-])(://[^\s:/@]{0,100}+:)([^\s/@]{1,500}+)(@)")

# The lower-case strings of which a text has one whenever a pattern above can match. Searching for
# them costs a hundredth of the patterns, and nearly every text has none. Most need a character that
# few texts have.
_TELLTALE = (
    ("", ("pass", "secret", "key", "token", "credential", "bearer", "basic", "pwd", "akia", "asia",
          "aiza", "dapi")),
    ("_", ("ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glc_", "k_live_", "k_test_",
           "npm_", "hf_", "dckr_", "_v1_", "shp", "lin_api_",
           "glp", "gld", "glr", "glf", "gls", "gla")),
    ("-", ("-----", "sk-", "xox", "pypi-", "nrak-", "age-",
           "glp", "gld", "glr", "glf", "gls", "gla")),
    (".", ("eyj", "ya29.", "sg.", "hvs.", "hvb.", "hvr.", "slack")),
    (":", ("://", ":aa")),
    ("=", ("sig=",)),
)  # fmt: skip


# The length from which an unknown word may be a key; the text before it identifies digests and
# paths.
_LONG_FROM = 24
_LONG = re.compile(rf"(?<![\w+/=.:@-])[A-Za-z0-9+/_-]{{{_LONG_FROM},400}}={{0,2}}(?![\w+/=.:@-])")


def mask(text: str) -> str:
    """Return the text with its secrets masked."""
    small = text.lower()
    if _may_hold_one(small):
        text = _masked(text)
        small = text.lower()
    # A random key has letters of both cases; most long words do not.
    if small == text or max(map(len, text.split()), default=0) < _LONG_FROM:
        return text
    return _LONG.sub(_mask_random, text)


# A few kinds, schemas and references repeat often; 4,096 is an arbitrary bound.
@functools.lru_cache(maxsize=4096)
def mask_known_formats(text: str) -> str:
    """Mask only secrets with a known format or name, in a text that is an identifier.

    Ids are random words like keys, and a masked id cannot be looked up again.
    """
    return _masked(text) if _may_hold_one(text.lower()) else text


def may_contain_secret(text: str) -> bool:
    """Return whether masking may change a text with these words."""
    small = text.lower()
    may_be_random = small != text and max(map(len, text.split(" "))) >= _LONG_FROM
    return may_be_random or _may_hold_one(small)


def _may_hold_one(small: str) -> bool:
    for needed, signs in _TELLTALE:
        if needed in small:
            for sign in signs:
                if sign in small:
                    return True
    return False


def _masked(text: str) -> str:
    if "sig=" in text:
        text = _SIGNED_ADDRESS.sub(MASK, text)
    if "-----BEGIN " in text:
        text = _PRIVATE_KEY.sub(MASK, text)
    if "eyJ" in text:
        text = _JWT.sub(rf"\1{MASK}", text)
    text = _WHOLE_SECRET.sub(MASK, text)
    if "://" in text:
        text = _URL.sub(rf"\1{MASK}\3", text)
    text = _BEARER.sub(rf"\1{MASK}", text)
    return _NAMED_SECRET.sub(_mask_named, text)


def _mask_named(match: re.Match[str]) -> str:
    name, sign, value = match[1], match[2], match[3]
    is_value = "=" in sign or '"' in sign or "'" in sign or any(map(str.isdigit, value))
    if name.lower().rstrip("\"'").endswith("token"):
        is_value = is_value and len(value) >= _TOKEN and any(map(str.isdigit, value))
    if not is_value or _REFERENCE.match(value):
        return match[0]
    return f"{name}{sign}{MASK}"


_TOKEN = 12


def _mask_random(match: re.Match[str]) -> str:
    return MASK if _is_random(match[0]) else match[0]


def _is_random(token: str) -> bool:
    """Return whether a word alternates between cases and digits as often as a random one.

    Identifiers consist of words; digests and ids have one case. A key in base 62 or 64 changes the
    kind of character at about six of ten positions. The numbers are arbitrary and tested with a
    corpus.
    """
    plain = token.rstrip("=")
    if _DIGEST.match(plain):
        return False
    if "/" in plain and max(map(len, plain.split("/"))) < _MAX_PATH_PART:
        return False
    kinds = plain.translate(_KINDS)
    if not {"a", "A", "0"}.issubset(kinds) or kinds.count("0") < 2:  # noqa: PLR2004 - two digits
        return False
    changes = len(_SAME_KIND.findall(kinds)) - 1
    return changes / len(plain) > _CHANGES and len(set(plain)) > len(plain) // 3


_DIGEST = re.compile(r"sha(?:1|256|384|512)-")
_MAX_PATH_PART = 16
_CHANGES = 0.42
_KINDS = str.maketrans(
    string.ascii_lowercase + string.ascii_uppercase + string.digits + "+/_-",
    "a" * 26 + "A" * 26 + "0" * 10 + "-" * 4,
)
_SAME_KIND = re.compile(r"a+|A+|0+|-+")


def mask_tree(value: Any) -> Any:
    """Return JSON data with the secrets in its strings and member names masked.

    A value is checked together with its member's name. Member names that become equal are numbered,
    so that no value is lost.
    """
    if isinstance(value, str):
        return mask(value)
    if isinstance(value, list):
        return [mask_tree(item) for item in value]
    if isinstance(value, dict):
        return _mask_members(value)
    return value


def _mask_members(members: Mapping[str, Any]) -> dict[str, Any]:
    masked: dict[str, Any] = {}
    counts: dict[str, int] = {}
    for key, item in members.items():
        name = plain = mask(key)
        while name != key and (name in masked or name in members):
            counts[plain] = counts.get(plain, 1) + 1
            name = f"{plain} {counts[plain]}"
        masked[name] = _mask_item(key, item)
    return masked


def _mask_item(key: str, item: Any) -> Any:
    if not isinstance(item, str):
        return mask_tree(item)
    masked = mask(item)
    # A name relates only to what directly follows it, at most the longest value.
    head = item[:_LONGEST_VALUE]
    if masked == item and mask(f"{key}={head}") != f"{mask(key)}={mask(head)}":
        return MASK
    return masked


_LONGEST_VALUE = 500
