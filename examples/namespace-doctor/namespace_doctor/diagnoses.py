"""Diagnoses and their causes. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Cause(StrEnum):
    """Why a pod fails, as a tag that facts carry."""

    IMAGE = "image-pull"
    CRASH = "crash-loop"
    PROBE = "failing-probe"
    MEMORY = "out-of-memory"
    UNSCHEDULABLE = "unschedulable"
    NOT_CREATED = "not-created"


@dataclass(frozen=True)
class Diagnosis:
    """Why one container of a pod does not work.

    Attributes:
        pod: the pod's name.
        cause: the class of the failure.
        subject: the image or workload that the explanation is about; it outlives the pod.
        signature: a text that is equal for equal failures of the same subject.
        explanation: continues the subject: "image x" "cannot be pulled: ...".
        advice: what to do about it.
    """

    pod: str
    cause: Cause
    subject: str
    signature: str
    explanation: str
    advice: str

    @property
    def statement(self) -> str:
        """The diagnosis as the text of a fact about the subject, without the pod."""
        return f"{self.subject} {self.explanation}; {self.advice}"
