"""The doctor's report: lines for the log, and JSON as the result of the mission. Pure.

The kubelet keeps 4,096 bytes of a termination message. If the report is longer, the list of reasons
is cut; the ids of the facts always stay.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from namespace_doctor.diagnose import Examination
from namespace_doctor.diagnoses import Diagnosis
from namespace_doctor.memory import KnownFact, Outcome, RecalledKnowledge

LIMIT_BYTES = 4096
_QUOTE = 300  # characters of one fact's text
_NOTE = 300
_PODS_NAMED = 5
_IDS = 25  # more than are injected, few enough to leave room for reasons


@dataclass(frozen=True)
class Finding:
    """One diagnosis, the pods that have it, and the recalled facts that fit it."""

    diagnosis: Diagnosis
    pods: tuple[str, ...]
    known_facts: tuple[KnownFact, ...]

    @property
    def is_stated(self) -> bool:
        """Whether a recalled fact has the same statement."""
        return any(fact.content == self.diagnosis.statement for fact in self.known_facts)


@dataclass(frozen=True)
class Report:
    """The content of the report, in the order of its text."""

    summary: str
    findings: tuple[Finding, ...]
    used_facts: tuple[str, ...]
    remembered_facts: tuple[str, ...]
    notes: tuple[str, ...]

    def text(self) -> str:
        """Format the whole report for the log."""
        lines = [self.summary]
        for finding in self.findings:
            lines.append(f"- {', '.join(finding.pods)} ({finding.diagnosis.cause.value})")
            if not finding.is_stated:
                title = "seen" if finding.known_facts else "new"
                lines.append(f"  {title}: {finding.diagnosis.statement}")
            lines += [
                f"  fact {fact.id}: {_short(fact.content, _QUOTE)}" for fact in finding.known_facts
            ]
        lines += [f"note: {note}" for note in self.notes]
        lines.append(f"used facts: [{', '.join(self.used_facts)}]")
        lines.append(f"remembered: [{', '.join(self.remembered_facts)}]")
        return "\n".join(lines) + "\n"

    def result(self) -> str:
        """Format the report as JSON of at most 4,096 bytes."""
        finding_count = len(self.findings)
        while True:
            text = json.dumps(self._tree(finding_count), ensure_ascii=False, separators=(",", ":"))
            if len(text.encode()) <= LIMIT_BYTES or not finding_count:
                return text
            finding_count -= 1

    def _tree(self, finding_count: int) -> dict[str, Any]:
        tree: dict[str, Any] = {
            "summary": self.summary,
            "pods": [_entry(finding) for finding in self.findings[:finding_count]],
        }
        if omitted_count := len(self.findings) - finding_count:
            tree["more"] = f"{omitted_count} more reasons stand in the cell's log"
        tree["used_facts"] = list(self.used_facts[:_IDS])
        tree["remembered_facts"] = list(self.remembered_facts[:_IDS])
        if self.notes:
            tree["notes"] = [_short(note, _NOTE) for note in self.notes[:4]]
        return tree


def build_report(
    examination: Examination, knowledge: RecalledKnowledge, outcome: Outcome, *, namespace: str
) -> Report:
    """Combine the examination, the recalled facts and the result of the writes."""
    findings = group_findings(examination.diagnoses, knowledge)
    notes = [note for note in (knowledge.note, *outcome.notes) if note]
    if outcome.confirmed:
        notes.append(f"the store had {outcome.confirmed} of these facts already")
    if examination.omitted_pods:
        notes.append(f"{examination.omitted_pods} more failing pods are beyond --max-pods")
    return Report(
        summary=_summary(examination, findings, namespace=namespace),
        findings=tuple(findings),
        used_facts=tuple(used_ids(findings)),
        remembered_facts=outcome.remembered,
        notes=tuple(notes),
    )


def group_findings(diagnoses: Sequence[Diagnosis], knowledge: RecalledKnowledge) -> list[Finding]:
    """Group diagnoses by subject and signature, in the order of their first occurrence."""
    groups: dict[tuple[str, str], list[Diagnosis]] = {}
    for diagnosis in diagnoses:
        groups.setdefault((diagnosis.subject, diagnosis.signature), []).append(diagnosis)
    return [
        Finding(
            group[0], tuple(dict.fromkeys(d.pod for d in group)), knowledge.facts_about(group[0])
        )
        for group in groups.values()
    ]


def used_ids(findings: Iterable[Finding]) -> list[str]:
    """Return the ids of the facts that fit a finding, without duplicates."""
    return list(dict.fromkeys(fact.id for finding in findings for fact in finding.known_facts))


def _summary(examination: Examination, findings: Sequence[Finding], *, namespace: str) -> str:
    failing = len({d.pod for d in examination.diagnoses}) + examination.omitted_pods
    if not failing:
        return f"namespace {namespace}: none of {examination.examined_pods} pods fails"
    known_count = sum(bool(finding.known_facts) for finding in findings)
    return (
        f"namespace {namespace}: {failing} of {examination.examined_pods} pods fail;"
        f" reasons known before: {known_count}, new: {len(findings) - known_count}"
    )


def _entry(finding: Finding) -> dict[str, Any]:
    pod_names = list(finding.pods[:_PODS_NAMED])
    if len(finding.pods) > _PODS_NAMED:
        pod_names.append(f"and {len(finding.pods) - _PODS_NAMED} more")
    entry: dict[str, Any] = {"pods": pod_names, "cause": finding.diagnosis.cause.value}
    if not finding.is_stated:
        entry["explanation"] = _short(finding.diagnosis.statement, _QUOTE)
    if finding.known_facts:
        quotes = {fact.id: _short(fact.content, _QUOTE) for fact in finding.known_facts}
        entry["known_from"] = quotes
    return entry


def _short(text: str, limit: int) -> str:
    line = " ".join(text.split())
    return line if len(line) <= limit else f"{line[: limit - 1]}…"
