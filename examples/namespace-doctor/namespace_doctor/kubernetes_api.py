"""The two reads that the doctor's Role allows, over plain HTTPS with the mounted token."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Any

import httpx

_PAGE = 500
_REASONS_BY_STATUS = {
    401: "the token is not accepted; is apiAccess true on the cell?",
    403: "the ServiceAccount may not do that; apply the example's rbac.yaml to this namespace",
}


class ClusterError(Exception):
    """The API server rejected a read or did not answer; the message says what to do."""


class NamespaceReader:
    """Reads pods and events of one namespace; the token is read again for each page."""

    def __init__(self, http: httpx.Client, *, namespace: str, token_file: Path) -> None:
        self._http = http
        self._namespace = namespace
        self._token_file = token_file

    def pods(self) -> list[dict[str, Any]]:
        """List the namespace's pods."""
        return self._list("pods")

    def events(self) -> list[dict[str, Any]]:
        """List the namespace's events about pods."""
        return self._list("events", fieldSelector="involvedObject.kind=Pod")

    def _list(self, plural: str, **params: str) -> list[dict[str, Any]]:
        items: list[dict[str, Any]] = []
        token = ""
        while True:
            page = self._page(plural, params | {"limit": str(_PAGE), "continue": token})
            items += page.get("items", [])
            token = page.get("metadata", {}).get("continue", "")
            if not token:
                return items

    def _page(self, plural: str, params: dict[str, str]) -> dict[str, Any]:
        operation = f"list {plural} of namespace {self._namespace}"
        try:
            token = self._token_file.read_text().strip()
            answer = self._http.get(
                f"/api/v1/namespaces/{self._namespace}/{plural}",
                params=params,
                headers={"Authorization": f"Bearer {token}"},
            )
        except OSError as exc:
            raise ClusterError(f"{operation}: no token ({exc}); set apiAccess on the cell") from exc
        except httpx.HTTPError as exc:
            raise ClusterError(f"{operation}: no answer from the API server ({exc})") from exc
        if answer.status_code != httpx.codes.OK:
            reason = _REASONS_BY_STATUS.get(answer.status_code, answer.text[:200])
            raise ClusterError(f"{operation}: {answer.status_code}, {reason}")
        page: dict[str, Any] = answer.json()
        return page


def connect(url: str, *, account: Path) -> httpx.Client:
    """Create a client that trusts only the cluster's own certificate authority."""
    try:
        trust = ssl.create_default_context(cafile=str(account / "ca.crt"))
    except OSError as exc:
        raise ClusterError(f"no ServiceAccount in {account} ({exc}); set apiAccess: true") from exc
    return httpx.Client(base_url=url, verify=trust, timeout=30)
