"""The doctor's report: what a person reads, and the result of the mission. Pure.

The kubelet keeps 4,096 bytes of a termination message. What is cut, when it is too long, is the
list of pods; the last lines with the ids of the facts always stay.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from namespace_doctor.diagnose import Examination
from namespace_doctor.diagnoses import Diagnosis
from namespace_doctor.memory import Given, KnownFact, Outcome

LIMIT_BYTES = 4096
_QUOTE = 300  # characters of one fact's text
_NOTE = 300
_PODS_NAMED = 5


@dataclass(frozen=True)
class Finding:
    """One reason, the pods that show it and the given facts that speak of it."""

    diagnosis: Diagnosis
    pods: tuple[str, ...]
    known: tuple[KnownFact, ...]


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


def render(
    examination: Examination, given: Given, outcome: Outcome, *, namespace: str
) -> tuple[str, str]:
    """Write the whole report and the same within 4,096 bytes."""
    found = findings(examination.diagnoses, given)
    head = _head(examination, found, namespace=namespace)
    tail = _tail(given, outcome, used_ids(found))
    blocks = [_block(finding) for finding in found]
    if examination.left_out:
        blocks.append(f"- {examination.left_out} more failing pods are beyond --max-pods")
    return _joined(head, blocks, tail), _fitted(head, blocks, tail)


def _head(examination: Examination, found: Sequence[Finding], *, namespace: str) -> str:
    failing = len({d.pod for d in examination.diagnoses}) + examination.left_out
    if not failing:
        return f"namespace {namespace}: none of {examination.looked_at} pods fails"
    known = sum(bool(finding.known) for finding in found)
    return (
        f"namespace {namespace}: {failing} of {examination.looked_at} pods fail"
        f" for {len(found)} reasons, {known} known before, {len(found) - known} new"
    )


def _block(finding: Finding) -> str:
    named = ", ".join(finding.pods[:_PODS_NAMED])
    if len(finding.pods) > _PODS_NAMED:
        named += f" and {len(finding.pods) - _PODS_NAMED} more"
    statement = finding.diagnosis.statement
    lines = [f"- {named} ({finding.diagnosis.cause.value})"]
    if not any(fact.content == statement for fact in finding.known):
        lines.append(f"  {'seen' if finding.known else 'new'}: {_short(statement, _QUOTE)}")
    lines += [f"  fact {fact.id}: {_short(fact.content, _QUOTE)}" for fact in finding.known]
    return "\n".join(lines)


def _tail(given: Given, outcome: Outcome, used: Sequence[str]) -> str:
    lines = [f"note: {_short(note, _NOTE)}" for note in (given.note, *outcome.notes[:3]) if note]
    if outcome.confirmed:
        lines.append(f"confirmed: {outcome.confirmed} facts that the store had already")
    lines.append(f"used facts: [{', '.join(used)}]")
    lines.append(f"remembered: [{', '.join(outcome.remembered)}]")
    return "\n".join(lines)


def _fitted(head: str, blocks: Sequence[str], tail: str) -> str:
    kept = len(blocks)
    while True:
        left = len(blocks) - kept
        more = [f"- {left} more reasons stand in the cell's log"] if left else []
        text = _joined(head, [*blocks[:kept], *more], tail).encode()
        if len(text) <= LIMIT_BYTES or not kept:
            return text[-LIMIT_BYTES:].decode(errors="ignore")
        kept -= 1


def _joined(head: str, blocks: Sequence[str], tail: str) -> str:
    return "\n".join([head, *blocks, tail]) + "\n"


def _short(text: str, limit: int) -> str:
    line = " ".join(text.split())
    return line if len(line) <= limit else f"{line[: limit - 1]}…"
