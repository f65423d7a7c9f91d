"""Authenticate callers by a file of tokens: each token stands for a principal, without a cluster.

file -> checked for changes (at most once a second) -> SHA-256 of each token -> principal
The file is JSON, `{"principals": [{"name", "type", "home", "grants", "token_sha256"}]}`; a plain
`token` may replace its hash, and `default_scope` be added. A token is compared with all hashes in
constant time, and the process keeps hashes only, so that neither timing nor memory reveals a token.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import os
import stat
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import anyio
import anyio.to_thread
import pydantic
from pydantic import Field, StringConstraints

from kais import scopes
from knowledge_client.base_model import WireModel
from knowledge_client.models import Grant, Quota
from knowledge_service.domain.principals import Principal
from knowledge_service.errors import IdentityUnavailable, StartupError, Unauthenticated

_log = logging.getLogger(__name__)
_CHECK_INTERVAL_S = 1.0
# 16 random characters have more than 90 bits; shorter tokens can be guessed.
_MIN_TOKEN_LENGTH = 16
_MAX_FILE_BYTES = 4 * 1024 * 1024

_Hash = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]


class _Entry(WireModel):
    name: str = Field(min_length=1, max_length=253)
    type: Literal["human", "agent", "system"]
    home: str
    default_scope: str | None = None
    grants: tuple[Grant, ...] = Field(default=(), max_length=64)
    quota: Quota | None = None
    token: str | None = Field(default=None, repr=False)
    token_sha256: _Hash | None = None


class _File(WireModel):
    principals: tuple[_Entry, ...] = Field(max_length=10_000)


class TokenFileError(Exception):
    """The token file is invalid; the message names the file and the fix, and no token."""


@dataclass(frozen=True)
class _TokenTable:
    version: tuple[int, int, int, int]
    principals: tuple[tuple[bytes, Principal], ...]


class TokenAuthentication:
    """Turns a bearer token into the principal that the file names for it.

    When the file becomes invalid, all callers are rejected until it is fixed: continuing with the
    previous content would keep a token alive that someone meant to revoke.

    Raises:
        StartupError: the file is missing, readable by all users, or invalid.
    """

    mode: Literal["kubernetes", "token", "none"] = "token"

    def __init__(self, path: Path, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._path = path
        self._monotonic = monotonic
        self._lock = threading.Lock()
        # A separate thread, so that slow requests do not delay authentication.
        self._threads = anyio.CapacityLimiter(1)
        self._problem: str | None = None
        try:
            self._loaded = _load(path)
        except TokenFileError as exc:
            raise StartupError(str(exc)) from exc
        self._checked_at_s = monotonic()

    async def principal(self, bearer: str | None) -> Principal:
        """Return the principal of a token."""
        if not bearer:
            raise Unauthenticated("no bearer token; send one of the service's token file")
        if self._monotonic() - self._checked_at_s >= _CHECK_INTERVAL_S:
            await anyio.to_thread.run_sync(self._reload_if_changed, limiter=self._threads)
        if self._problem:
            raise IdentityUnavailable("the service's token file cannot be read; its log says why")
        digest = hashlib.sha256(bearer.encode()).digest()
        match: Principal | None = None
        for token_digest, principal in self._loaded.principals:
            if hmac.compare_digest(token_digest, digest):
                match = principal
        if match is None:
            raise Unauthenticated("unknown token")
        return match

    def _reload_if_changed(self) -> None:
        with self._lock:
            self._checked_at_s = self._monotonic()
            try:
                if self._problem is None and _file_version(self._path) == self._loaded.version:
                    return
                self._loaded = _load(self._path)
            except TokenFileError as exc:
                if str(exc) != self._problem:
                    _log.error("token file refused", extra={"fields": {"why": str(exc)}})
                self._problem = str(exc)
                return
            self._problem = None
            fields = {"principals": len(self._loaded.principals)}
            _log.info("token file read", extra={"fields": fields})


def _file_version(path: Path) -> tuple[int, int, int, int]:
    try:
        status = path.stat()
    except OSError as exc:
        raise _unreadable_file(path, exc) from exc
    return status.st_dev, status.st_ino, status.st_mtime_ns, status.st_size


def _unreadable_file(path: Path, exc: OSError) -> TokenFileError:
    return TokenFileError(
        f"token file {path} cannot be read ({exc.strerror}); "
        "give --token-file (KAIS_TOKEN_FILE) a file that this user may read"
    )


def _load(path: Path) -> _TokenTable:
    try:
        with path.open("rb") as handle:
            status = os.fstat(handle.fileno())
            if status.st_mode & stat.S_IRWXO:
                raise TokenFileError(
                    f"token file {path} is readable by all users of this machine "
                    f"(mode {stat.S_IMODE(status.st_mode):04o}); chmod 0600 it, "
                    "or mount the Secret with defaultMode 0440"
                )
            text = handle.read(_MAX_FILE_BYTES + 1)
    except OSError as exc:
        raise _unreadable_file(path, exc) from exc
    if len(text) > _MAX_FILE_BYTES:
        raise TokenFileError(f"token file {path} may have {_MAX_FILE_BYTES} bytes")
    version = (status.st_dev, status.st_ino, status.st_mtime_ns, status.st_size)
    try:
        entries = _File.model_validate_json(text).principals
    except pydantic.ValidationError as exc:
        # The input and the context of an error are left out: both may contain a token.
        problems = "; ".join(
            f"{'.'.join(str(part) for part in error['loc']) or 'the file'}: {error['msg']}"
            for error in exc.errors(include_input=False, include_context=False, include_url=False)
        )
        raise TokenFileError(f"token file {path} is invalid: {problems}") from None
    principals = tuple(_principal_of(path, index, entry) for index, entry in enumerate(entries))
    if len({digest for digest, _ in principals}) < len(principals):
        raise TokenFileError(f"token file {path}: two principals have one token; give each its own")
    _reject_duplicates(path, [principal for _, principal in principals])
    return _TokenTable(version, principals)


def _reject_duplicates(path: Path, principals: Sequence[Principal]) -> None:
    """Reject different principals with the same name; one principal may have several tokens.

    Otherwise a repeated request of one could get the stored response of the other.
    """
    first: dict[str, Principal] = {}
    for principal in principals:
        if first.setdefault(principal.identity, principal) != principal:
            raise TokenFileError(
                f"token file {path}: {principal.name} of {principal.home} is listed twice with"
                " different grants or quotas; give two principals two names"
            )


def _principal_of(path: Path, index: int, entry: _Entry) -> tuple[bytes, Principal]:
    location = f"token file {path}: principals.{index} ({entry.name})"
    if (entry.token is None) == (entry.token_sha256 is None):
        raise TokenFileError(f"{location} must have one of token and token_sha256")
    if entry.token is not None and len(entry.token) < _MIN_TOKEN_LENGTH:
        raise TokenFileError(
            f"{location}: its token must have {_MIN_TOKEN_LENGTH} characters or more"
        )
    try:
        home = str(scopes.Scope.parse(entry.home))
        default_scope = entry.default_scope and str(scopes.Scope.parse(entry.default_scope))
        grants = tuple(
            grant.model_copy(update={"scope": str(scopes.Scope.parse(grant.scope))})
            for grant in entry.grants
        )
    except scopes.InvalidScope as exc:
        raise TokenFileError(f"{location}: {exc}") from exc
    digest = (
        hashlib.sha256(entry.token.encode()).digest()
        if entry.token is not None
        else bytes.fromhex(entry.token_sha256 or "")
    )
    return digest, Principal(
        entry.name, entry.type, home, grants, entry.quota, memory=default_scope
    )
