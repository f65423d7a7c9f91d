"""Records of runs that failed, as teams leave them, with the facts that a person would keep.

Lines are (type, content) or (type, content, signature); "2:" before a type is the attempt.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class FailureRecord:
    """What a run left: its episodes, what it remembered itself, and what is worth keeping.

    `earlier` are signatures that another run of the scope met as well.
    """

    name: str
    lines: tuple[tuple[str, ...], ...]
    kept: tuple[str, ...] = ()
    remembered: tuple[str, ...] = ()
    earlier: tuple[str, ...] = ()
    outcome: str = "Failed"


RECORDS = (
    FailureRecord(
        "aborted while it ran, as an older operator told it",
        (("error", "attempt 1: ", "Running"), ("error", "attempt 2: ", "Running")),
        earlier=("Running",),
        outcome="Cancelled",
    ),
    FailureRecord(
        "a task whose result is JSON",
        (
            (
                "error",
                'attempt 1: the task ended with exit code 2: {"checked": 12, "failed": 3}',
                '{"checked": 12, "failed": 3}',
            ),
        ),
        earlier=('{"checked": 12, "failed": 3}',),
    ),
    FailureRecord(
        "a task that says nothing but its exit code",
        (
            (
                "error",
                "attempt 1: the task ended with exit code 1",
                "the task ended with exit code 1",
            ),
            (
                "2:error",
                "attempt 2: the task ended with exit code 1",
                "the task ended with exit code 1",
            ),
        ),
    ),
    FailureRecord(
        "a check that says nothing but its exit code",
        (("check", "check tests failed: exit code 1"), ("check", "check lint error: ")),
    ),
    FailureRecord(
        "a time limit that ran out",
        (("error", "attempt 1: the time for all attempts ran out", "TimedOut"),),
        earlier=("TimedOut",),
        outcome="TimedOut",
    ),
    FailureRecord(
        "an agent that explained the failure better than its signature does",
        (
            (
                "error",
                (
                    "pod web-6f: container app cannot pull registry.example.com/web:2.3, tag not"
                    " found"
                ),
                "ImagePullBackOff",
            ),
            (
                "error",
                (
                    "pod web-7c: container app cannot pull registry.example.com/web:2.3, tag not"
                    " found"
                ),
                "ImagePullBackOff",
            ),
        ),
        remembered=(
            (
                "Container app of deployment web cannot pull registry.example.com/web:2.3: the"
                " tag is not found; 2.3.1 exists (ImagePullBackOff)"
            ),
        ),
    ),
    FailureRecord(
        "an agent that explained one of two failures",
        (
            ("error", "pod db-0: volume data is full, no space left on device", "ENOSPC"),
            ("error", "pod db-1: volume data is full, no space left on device", "ENOSPC"),
            ("error", "pod cache-0: redis refuses writes, maxmemory reached", "redis-oom"),
            ("error", "pod cache-1: redis refuses writes, maxmemory reached", "redis-oom"),
        ),
        kept=(
            (
                "The error redis-oom recurs, seen as: pod cache-0: redis refuses writes, maxmemory"
                " reached"
            ),
        ),
        remembered=(
            (
                "ENOSPC on pod db-0 and db-1: the volume data is full, no space left on the"
                " device; grow the claim data"
            ),
        ),
    ),
    FailureRecord(
        "a build without its Java",
        (
            ("check", "check build failed: error: release version 21 not supported"),
            ("check", "check lint passed"),
        ),
        kept=("The check build fails with: error: release version 21 not supported",),
    ),
    FailureRecord(
        "one check that fails in each attempt",
        (
            ("check", "check e2e failed: connection refused by checkout:8443", "e2e"),
            ("2:check", "check e2e failed: connection refused by checkout:8443", "e2e"),
        ),
        kept=("The check e2e fails with: connection refused by checkout:8443",),
    ),
    FailureRecord(
        "memory that ran out twice",
        (
            ("error", "attempt 1: OOMKilled: container work needs more than 512Mi", "OOMKilled"),
            ("2:error", "attempt 2: OOMKilled: container work needs more than 512Mi", "OOMKilled"),
        ),
        kept=("The error OOMKilled recurs, seen as: container work needs more than 512Mi",),
    ),
    FailureRecord(
        "an error that happened once",
        (("error", "attempt 1: could not reach proxy.example.com", "ECONNREFUSED"),),
    ),
    FailureRecord(
        "an error of this run that an earlier one had",
        (("error", "terraform: state is locked by ci-17", "Error acquiring the state lock"),),
        kept=(
            (
                "The error Error acquiring the state lock recurs, seen as: terraform: state is"
                " locked by ci-17"
            ),
        ),
        earlier=("Error acquiring the state lock",),
    ),
    FailureRecord(
        "a change that helped",
        (
            ("error", "attempt 1: the task ended with exit code 1: node 18 is too old for vite 6"),
            ("decision", "set the image to node:22"),
            ("2:message", "attempt 2: the task succeeded: built"),
        ),
        kept=(
            (
                "After the failure 'the task ended with exit code 1: node 18 is too old for vite 6'"
                " this helped: set the image to node:22"
            ),
        ),
        outcome="Succeeded",
    ),
    FailureRecord(
        "a change that helped, which the run remembered",
        (
            ("error", "attempt 1: pip cannot build psycopg2, pg_config is missing"),
            ("decision", "install libpq-dev before pip"),
            ("2:message", "attempt 2: the task succeeded"),
        ),
        remembered=(
            (
                "pip cannot build psycopg2 where pg_config is missing: install libpq-dev"
                " before pip runs"
            ),
        ),
        outcome="Succeeded",
    ),
    FailureRecord(
        "a retry that went well by itself",
        (
            ("error", "attempt 1: ", "Lost"),
            ("decision", "try again"),
            ("2:message", "attempt 2: the task succeeded"),
        ),
        outcome="Succeeded",
    ),
    FailureRecord(
        "a review that asked for more",
        (
            ("check", "check report failed: the summary has no title"),
            ("message", "Feedback: begin the summary with a title"),
            ("2:message", "attempt 2: the task succeeded"),
        ),
        kept=(
            (
                "After the failure 'check report: the summary has no title' this helped: Feedback:"
                " begin the summary with a title"
            ),
            "The check report fails with: the summary has no title",
        ),
        outcome="Succeeded",
    ),
    FailureRecord(
        "a cluster that had no room",
        (("decision", "the run ended InfrastructureFailed: 0/3 nodes are available"),),
        outcome="InfrastructureFailed",
    ),
    FailureRecord(
        "the same stack trace from two workers",
        (
            (
                "error",
                "Traceback (most recent call last):\n  File job.py\nKeyError: 'region'",
                "KeyError: 'region'",
            ),
            (
                "error",
                "Traceback (most recent call last):\n  File job.py\nKeyError: 'region'",
                "KeyError: 'region'",
            ),
        ),
        kept=(
            (
                "This error recurs: Traceback (most recent call last): File job.py KeyError:"
                " 'region'"
            ),
        ),
    ),
    FailureRecord(
        "numbers and codes for signatures",
        (
            ("error", "attempt 1: exit status 137", "137"),
            ("2:error", "attempt 2: exit status 137", "137"),
            ("error", "failed", "error"),
            ("2:error", "failed", "error"),
        ),
    ),
    FailureRecord(
        "two checks with the same cause, one of them told by the agent",
        (
            ("check", "check migrate failed: relation orders_v2 already exists"),
            ("check", "check seed failed: column total of orders_v2 is missing"),
        ),
        kept=("The check seed fails with: column total of orders_v2 is missing",),
        remembered=("Relation orders_v2 already exists when migrate runs twice; drop it first",),
    ),
)
