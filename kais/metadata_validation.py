"""Validates the names in the metadata of an object, as the API server would."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from kais import names
from kais.errors import Violation

SUBDOMAIN = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
"""The pattern of the whole name of an object, which has at most `MAX_NAME` characters."""
MAX_NAME = 253
_SUBDOMAIN = re.compile(SUBDOMAIN)
_ENDS = "and must start and end with an alphanumeric character"
_SUBDOMAIN_RULE = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.',"
    f" {_ENDS}"
)
_LABEL_RULE = (
    f"a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', {_ENDS}"
)


def is_object_name(text: str) -> bool:
    """Whether a text is a valid name of an object: a DNS subdomain of 1 to 253 characters."""
    return len(text) <= MAX_NAME and _SUBDOMAIN.fullmatch(text) is not None


def violations(metadata: Any) -> Iterator[Violation]:
    """Yield what the API server refuses in name, generateName and namespace.

    Values that are not text are left to the model of the metadata.
    """
    fields: Mapping[str, Any] = metadata if isinstance(metadata, Mapping) else {}
    name, prefix, namespace = (
        fields.get(field) or "" for field in ("name", "generateName", "namespace")
    )
    if not name and not prefix:
        yield Violation("metadata.name", "Required value: name or generateName is required")
    if isinstance(prefix, str) and prefix:
        begun = f"{prefix.removesuffix('-')}a" if prefix.endswith("-") else prefix
        yield from _subdomain("metadata.generateName", prefix, begun)
    if isinstance(name, str) and name:
        yield from _subdomain("metadata.name", name, name)
    if isinstance(namespace, str) and namespace:
        yield from _label("metadata.namespace", namespace)


def _subdomain(path: str, text: str, checked: str) -> Iterator[Violation]:
    if len(text) > MAX_NAME:
        yield _too_long(path, text, MAX_NAME)
    elif _SUBDOMAIN.fullmatch(checked) is None:
        yield _invalid(path, text, _SUBDOMAIN_RULE)


def _label(path: str, text: str) -> Iterator[Violation]:
    if len(text) > names.LIMIT:
        yield _too_long(path, text, names.LIMIT)
    elif not names.is_dns_label(text):
        yield _invalid(path, text, _LABEL_RULE)


def _too_long(path: str, text: str, limit: int) -> Violation:
    return Violation(path, f"has {len(text)} characters; must be no more than {limit} characters")


def _invalid(path: str, text: str, rule: str) -> Violation:
    valid = re.sub(r"[^a-z0-9-]+", "-", text.lower()).strip("-")
    example = f", such as {valid}" if valid else ""
    return Violation(path, f'Invalid value: "{text}": {rule}{example}')
