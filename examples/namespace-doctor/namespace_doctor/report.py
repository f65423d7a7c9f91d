"""The doctor's report: lines for the log, and JSON as the result of the mission. Pure.

The kubelet keeps 4,096 bytes of a termination message. What is cut, when it is too long, is the
list of reasons; the ids of the facts always stay.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from namespace_doctor.diagnose import Examination
from namespace_doctor.diagnoses import Diagnosis
from namespace_doctor.memory import Given, KnownFact, Outcome

LIMIT_BYTES = 4096
_QUOTE = 300  # characters of one fact's text
_NOTE = 300
_PODS_NAMED = 5
_IDS = 25  # more than are injected, few enough to leave room for reasons


@dataclass(frozen=True)
class Finding:
    """One reason, the pods that show it and the given facts that speak of it."""

    diagnosis: Diagnosis
    pods: tuple[str, ...]
    known: tuple[KnownFact, ...]

    @property
    def is_said(self) -> bool:
        """Whether a given fact says exactly this."""
        return any(fact.content == self.diagnosis.statement for fact in self.known)


@dataclass(frozen=True)
class Report:
    """What there is to tell, in the order in which it is told."""

    summary: str
    findings: tuple[Finding, ...]
    used: tuple[str, ...]
    remembered: tuple[str, ...]
    notes: tuple[str, ...]

    def text(self) -> str:
        """Write it for the log, whole."""
        lines = [self.summary]
        for finding in self.findings:
            lines.append(f"- {', '.join(finding.pods)} ({finding.diagnosis.cause.value})")
            if not finding.is_said:
                title = "seen" if finding.known else "new"
                lines.append(f"  {title}: {finding.diagnosis.statement}")
            lines += [f"  fact {fact.id}: {_short(fact.content, _QUOTE)}" for fact in finding.known]
        lines += [f"note: {note}" for note in self.notes]
        lines.append(f"used facts: [{', '.join(self.used)}]")
        lines.append(f"remembered: [{', '.join(self.remembered)}]")
        return "\n".join(lines) + "\n"

    def result(self) -> str:
        """Write it as JSON of at most 4,096 bytes."""
        kept = len(self.findings)
        while True:
            text = json.dumps(self._tree(kept), ensure_ascii=False, separators=(",", ":"))
            if len(text.encode()) <= LIMIT_BYTES or not kept:
                return text
            kept -= 1

    def _tree(self, kept: int) -> dict[str, Any]:
        tree: dict[str, Any] = {
            "summary": self.summary,
            "pods": [_entry(finding) for finding in self.findings[:kept]],
        }
        if left := len(self.findings) - kept:
            tree["more"] = f"{left} more reasons stand in the cell's log"
        tree["used_facts"] = list(self.used[:_IDS])
        tree["remembered_facts"] = list(self.remembered[:_IDS])
        if self.notes:
            tree["notes"] = [_short(note, _NOTE) for note in self.notes[:4]]
        return tree


def make(examination: Examination, given: Given, outcome: Outcome, *, namespace: str) -> Report:
    """Put together what was seen, what was known of it and what became of the rest."""
    found = findings(examination.diagnoses, given)
    notes = [note for note in (given.note, *outcome.notes) if note]
    if outcome.confirmed:
        notes.append(f"the store had {outcome.confirmed} of these facts already")
    if examination.left_out:
        notes.append(f"{examination.left_out} more failing pods are beyond --max-pods")
    return Report(
        summary=_summary(examination, found, namespace=namespace),
        findings=tuple(found),
        used=tuple(used_ids(found)),
        remembered=outcome.remembered,
        notes=tuple(notes),
    )


def findings(diagnoses: Sequence[Diagnosis], given: Given) -> list[Finding]:
    """Group diagnoses by what they are about, in the order in which they came."""
    groups: dict[tuple[str, str], list[Diagnosis]] = {}
    for diagnosis in diagnoses:
        groups.setdefault((diagnosis.subject, diagnosis.signature), []).append(diagnosis)
    return [
        Finding(group[0], tuple(dict.fromkeys(d.pod for d in group)), given.about(group[0]))
        for group in groups.values()
    ]


def used_ids(found: Iterable[Finding]) -> list[str]:
    """Name the given facts that fit a finding, each once."""
    return list(dict.fromkeys(fact.id for finding in found for fact in finding.known))


def _summary(examination: Examination, found: Sequence[Finding], *, namespace: str) -> str:
    failing = len({d.pod for d in examination.diagnoses}) + examination.left_out
    if not failing:
        return f"namespace {namespace}: none of {examination.looked_at} pods fails"
    known = sum(bool(finding.known) for finding in found)
    return (
        f"namespace {namespace}: {failing} of {examination.looked_at} pods fail;"
        f" reasons known before: {known}, new: {len(found) - known}"
    )


def _entry(finding: Finding) -> dict[str, Any]:
    named = list(finding.pods[:_PODS_NAMED])
    if len(finding.pods) > _PODS_NAMED:
        named.append(f"and {len(finding.pods) - _PODS_NAMED} more")
    entry: dict[str, Any] = {"pods": named, "cause": finding.diagnosis.cause.value}
    if not finding.is_said:
        entry["explanation"] = _short(finding.diagnosis.statement, _QUOTE)
    if finding.known:
        said = {fact.id: _short(fact.content, _QUOTE) for fact in finding.known}
        entry["known_from"] = said
    return entry


def _short(text: str, limit: int) -> str:
    line = " ".join(text.split())
    return line if len(line) <= limit else f"{line[: limit - 1]}…"
