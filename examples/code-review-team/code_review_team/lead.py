"""The lead: a Task cell that asks its peers for reviews and merges their findings.

The topology determines the peers: the lead reads them from KAIS_PEERS_FILE.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from code_review_team import findings
from code_review_team.developer import PORT
from code_review_team.findings import Finding, SourceFile

_PATIENCE_S = 20.0

Post = Callable[[str, Mapping[str, Any]], Any]
"""Sends JSON to an address and returns the answer's JSON; raises httpx.HTTPError or ValueError."""


@dataclass(frozen=True)
class Review:
    """The findings of all developers, and notes about developers that did not answer."""

    findings: tuple[Finding, ...]
    notes: tuple[str, ...]

    @property
    def is_serious(self) -> bool:
        """Whether one finding is serious."""
        return any(finding.severity == findings.SERIOUS for finding in self.findings)


def peers(file: Path, cell: str) -> tuple[str, ...]:
    """Return the peers of this cell; empty if the file does not list the cell.

    Raises:
        OSError, ValueError: there is no such file, or it is not a JSON object.
    """
    return tuple(json.loads(file.read_text()).get(cell, ()))


def addresses(formation: str, names: Sequence[str]) -> dict[str, str]:
    """Return the URL of each peer; the Service of a cell has the name of the cell."""
    return {name: f"http://{formation}-{name}:{PORT}/review" for name in names}


def collect_reviews(
    urls: Mapping[str, str], files: Sequence[SourceFile], *, language: str, post: Post
) -> Review:
    """Ask every developer; one that does not answer adds a note and stops nothing."""
    body = {
        "language": language,
        "files": [{"path": source.path, "text": source.text} for source in files],
    }
    all_findings: list[Finding] = []
    notes: list[str] = []
    for name, url in sorted(urls.items()):
        try:
            answer = post(url, body)
            all_findings += [findings.from_json(item) for item in answer["findings"]]
        except (httpx.HTTPError, ValueError, KeyError) as exc:
            notes.append(f"{name} gave no review: {exc}")
            continue
        notes += [answer["note"]] if answer.get("note") else []
    all_findings.sort(key=lambda finding: (finding.path, finding.line, finding.rule))
    return Review(tuple(all_findings), tuple(notes))


def post(url: str, body: Mapping[str, Any], *, retries: int = 5) -> Any:
    """Send JSON over HTTP, waiting for a developer that is still starting."""
    transport = httpx.HTTPTransport(retries=retries)
    with httpx.Client(transport=transport, timeout=_PATIENCE_S) as client:
        answer = client.post(url, json=dict(body))
        answer.raise_for_status()
        return answer.json()
