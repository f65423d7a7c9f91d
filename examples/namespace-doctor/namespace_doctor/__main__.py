"""`python -m namespace_doctor`: explain failing pods, remember facts, and report.

The exit status is 0 if the report is written, even if pods fail or the knowledge service does not
answer. It is 1 if the cluster cannot be read.
"""

from __future__ import annotations

import os
import sys
from datetime import UTC, datetime
from pathlib import Path

from knowledge_client import KnowledgeClient, errors, retries
from namespace_doctor import diagnose, kubernetes_api, memory, report, settings

_PATIENCE = retries.RetryPolicy(deadline_s=40, unregistered_s=30)


def main() -> int:
    """Run the doctor once."""
    doctor_settings = settings.read(os.environ, sys.argv[1:])
    try:
        examination = examine_namespace(doctor_settings)
    except kubernetes_api.ClusterError as exc:
        text = f"cannot examine namespace {doctor_settings.namespace}: {exc}\n"
        _write(doctor_settings.report_file, text, text)
        return 1
    knowledge = memory.read_knowledge(doctor_settings.knowledge_file)
    outcome = store_knowledge(doctor_settings, examination, knowledge)
    doctor_report = report.build_report(
        examination, knowledge, outcome, namespace=doctor_settings.namespace
    )
    _write(doctor_settings.report_file, doctor_report.text(), doctor_report.result())
    return 0


def examine_namespace(doctor_settings: settings.Settings) -> diagnose.Examination:
    """Read the namespace and explain what fails in it."""
    with kubernetes_api.connect(doctor_settings.api_url, account=doctor_settings.account) as http:
        reader = kubernetes_api.NamespaceReader(
            http, namespace=doctor_settings.namespace, token_file=doctor_settings.account / "token"
        )
        all_pods, events, now = reader.pods(), reader.events(), datetime.now(UTC)
        return diagnose.examine(all_pods, events, now=now, max_pods=doctor_settings.max_pods)


def store_knowledge(
    doctor_settings: settings.Settings,
    examination: diagnose.Examination,
    knowledge: memory.RecalledKnowledge,
) -> memory.Outcome:
    """Store new facts and the record of the run; without a service, add a note."""
    mission = (
        f"{doctor_settings.namespace}/{doctor_settings.mission}"
        if doctor_settings.mission
        else None
    )
    origin = memory.Origin(doctor_settings.run_id, doctor_settings.attempt, mission)
    facts = memory.new_facts(examination.diagnoses, knowledge, origin)
    record = memory.episodes(
        examination.diagnoses,
        knowledge,
        namespace=doctor_settings.namespace,
        attempt=doctor_settings.attempt,
    )
    try:
        with KnowledgeClient(retries=_PATIENCE) as store:
            return memory.store_knowledge(store, facts, record, run_id=doctor_settings.run_id)
    except errors.KnowledgeError as exc:  # no address is set: there is no store to tell
        return memory.Outcome(notes=(f"nothing was remembered: {exc}",))


def _write(path: Path, text: str, result: str) -> None:
    sys.stdout.write(text)
    try:
        path.write_text(result)
    except OSError as exc:
        sys.stderr.write(f"the result could not be written to {path}: {exc}\n")


if __name__ == "__main__":
    sys.exit(main())
