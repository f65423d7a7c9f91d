"""Copies of the database in a bucket: upload, download, and deletion of the oldest.

The bucket speaks the protocol of S3. Address, region and credentials come from the variables that
all clients of S3 read, those of web identities included. This module does not depend on the content
of a copy.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import obstore
from obstore.exceptions import BaseError
from obstore.store import S3Store

from knowledge_service.errors import StartupError

SCHEME = "s3://"
_RETRY_FOR = timedelta(seconds=60)
_PART_BYTES = 5 * 1024 * 1024
"""Bytes of one request; the library gives each request 30 s, however slow the network is."""
_PARALLEL_PARTS = 2
_CODE = re.compile(r"<Code>(\w+)</Code>")
_STATUS = re.compile(r"status code: (\d{3})")
_MAX_MESSAGE_CHARACTERS = 200


class BackupBucket:
    """One folder of a bucket, by its address `s3://BUCKET/FOLDER`."""

    def __init__(self, address: str) -> None:
        self.address = address.rstrip("/")
        with self._errors("open"):
            self._store = S3Store.from_url(
                self.address, retry_config={"max_retries": 5, "retry_timeout": _RETRY_FOR}
            )

    def upload(self, file: Path) -> None:
        """Store a file under its name, and check that the bucket has all of it.

        Raises:
            StartupError: the bucket has a file of this name, rejects this one or does not answer; a
                file that was uploaded in part is not visible.
        """
        with self._errors("write"):
            if file.name in self.names(re.compile(re.escape(file.name))):
                raise StartupError(
                    f"{self.address}/{file.name} exists already; a copy never replaces another one."
                    " Give each installation a folder of its own"
                )
            obstore.put(
                self._store,
                file.name,
                file,
                chunk_size=_PART_BYTES,
                max_concurrency=_PARALLEL_PARTS,
            )
            stored_bytes = obstore.head(self._store, file.name)["size"]
        if stored_bytes != file.stat().st_size:
            raise StartupError(
                f"{self.address}/{file.name} has {stored_bytes} bytes, the copy has"
                f" {file.stat().st_size}; delete it and repeat the backup"
            )

    def names(self, pattern: re.Pattern[str]) -> list[str]:
        """Return the names of the folder's files that match a pattern, sorted.

        Raises:
            StartupError: the bucket does not answer, or does not allow it.
        """
        with self._errors("list"):
            listed = obstore.list_with_delimiter(self._store)["objects"]
        names = (entry["path"].rsplit("/", 1)[-1] for entry in listed)
        return sorted(name for name in names if pattern.fullmatch(name))

    def download(self, name: str, to: Path) -> None:
        """Write a file of the folder to the disk.

        Raises:
            StartupError: there is no such file, or the bucket or the disk fails.
        """
        with self._errors("read"):
            size = obstore.head(self._store, name)["size"]
            try:
                with to.open("wb") as stream:
                    for start in range(0, size, _PART_BYTES):
                        end = min(start + _PART_BYTES, size)
                        stream.write(obstore.get_range(self._store, name, start=start, end=end))
            except OSError as exc:
                raise StartupError(f"cannot write {to} ({exc.strerror})") from exc

    def delete(self, names: list[str]) -> None:
        """Delete files of the folder, one by one: not all servers can delete several at once.

        Raises:
            StartupError: the bucket does not answer, or does not allow it.
        """
        with self._errors("delete in"):
            for name in names:
                obstore.delete(self._store, name)

    @contextmanager
    def _errors(self, action: str) -> Iterator[None]:
        try:
            yield
        except (BaseError, FileNotFoundError, PermissionError, ValueError) as exc:
            raise StartupError(f"cannot {action} {self.address} ({_reason(exc)})") from exc


def _reason(exc: Exception) -> str:
    """Shorten the message of the library, which contains requests and responses in full."""
    text = str(exc)
    for marker, reason in _REASONS.items():
        if marker in text:
            return reason
    code, status = _CODE.search(text), _STATUS.search(text)
    if code is not None:
        return code[1]
    return (
        f"status {status[1]}"
        if status is not None
        else text.splitlines()[0][:_MAX_MESSAGE_CHARACTERS]
    )


_REGION = "the bucket is in another region; set AWS_REGION"
_REASONS = {
    "redirect without LOCATION": _REGION,
    "<Code>PermanentRedirect<": _REGION,
    "<Code>AuthorizationHeaderMalformed<": _REGION,
    "InvalidCertificate": "the certificate of the server is not trusted; set SSL_CERT_FILE to a"
    " file with the certificate of its authority",
    "builder error": "an address without TLS needs AWS_ALLOW_HTTP=true",
    "error sending request": "no answer; check AWS_ENDPOINT_URL and the network",
}
"""Explanations by a part of the library's message; the first match counts."""
