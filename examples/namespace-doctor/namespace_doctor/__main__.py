"""`python -m namespace_doctor`: look, explain, remember, report.

Exits 0 when the report is made, whatever it says and whether or not the knowledge service answers;
1 when the cluster could not be read.
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
    found = settings.read(os.environ, sys.argv[1:])
    try:
        examination = look(found)
    except kubernetes_api.ClusterError as exc:
        text = f"cannot examine namespace {found.namespace}: {exc}\n"
        _write(found.report_file, text, text)
        return 1
    given = memory.read_given(found.knowledge_file)
    outcome = tell(found, examination, given)
    made = report.make(examination, given, outcome, namespace=found.namespace)
    _write(found.report_file, made.text(), made.result())
    return 0


def look(found: settings.Settings) -> diagnose.Examination:
    """Read the namespace and explain what fails in it."""
    with kubernetes_api.connect(found.api_url, account=found.account) as http:
        reader = kubernetes_api.NamespaceReader(
            http, namespace=found.namespace, token_file=found.account / "token"
        )
        found_pods, events, now = reader.pods(), reader.events(), datetime.now(UTC)
        return diagnose.examine(found_pods, events, now=now, max_pods=found.max_pods)


def tell(
    found: settings.Settings, examination: diagnose.Examination, given: memory.Given
) -> memory.Outcome:
    """Tell the store what is new; without a store, say so."""
    mission = f"{found.namespace}/{found.mission}" if found.mission else None
    origin = memory.Origin(found.run_id, found.attempt, mission)
    facts = memory.new_facts(examination.diagnoses, given, origin)
    record = memory.episodes(
        examination.diagnoses, given, namespace=found.namespace, attempt=found.attempt
    )
    try:
        with KnowledgeClient(retries=_PATIENCE) as store:
            return memory.tell(store, facts, record, run_id=found.run_id)
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
