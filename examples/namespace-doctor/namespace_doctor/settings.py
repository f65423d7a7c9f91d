"""What the doctor is given: the environment of its pod and its arguments, read once."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The settings of the doctor.

    Attributes:
        namespace: whose pods are examined.
        max_pods: maximum number of failing pods to explain.
        api_url: the API server's address.
        account: the folder with the ServiceAccount's `token` and `ca.crt`.
        knowledge_file: the facts that were recalled for this attempt; None without a recall.
        run_id: the run whose record this attempt writes; None outside a mission.
        attempt: the number of the attempt in the run.
        mission: the Mission's name; None outside one.
        report_file: the file of the result, by default the kubelet's termination message.
    """

    namespace: str
    max_pods: int
    api_url: str
    account: Path
    knowledge_file: Path | None
    run_id: str | None
    attempt: int
    mission: str | None
    report_file: Path


def read(environment: Mapping[str, str], arguments: Sequence[str]) -> Settings:
    """Read environment and arguments; an invalid argument ends the program with its usage."""
    parser = argparse.ArgumentParser(prog="namespace-doctor", description=__doc__)
    parser.add_argument("--namespace", default=environment.get("CELL_NAMESPACE", "default"))
    parser.add_argument("--max-pods", type=int, default=50)
    options = parser.parse_args(arguments)
    host = environment.get("KUBERNETES_SERVICE_HOST", "kubernetes.default.svc")
    host = f"[{host}]" if ":" in host else host
    knowledge_file = environment.get("KAIS_KNOWLEDGE_FILE")
    return Settings(
        namespace=options.namespace,
        max_pods=options.max_pods,
        api_url=f"https://{host}:{environment.get('KUBERNETES_SERVICE_PORT', '443')}",
        account=Path(environment.get("DOCTOR_ACCOUNT_DIR", _ACCOUNT)),
        knowledge_file=Path(knowledge_file) if knowledge_file else None,
        run_id=environment.get("KAIS_RUN_ID") or None,
        attempt=int(environment.get("KAIS_ATTEMPT") or 1),
        mission=environment.get("KAIS_MISSION") or None,
        report_file=Path(environment.get("DOCTOR_REPORT_FILE", "/dev/termination-log")),
    )
