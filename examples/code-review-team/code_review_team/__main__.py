"""`python -m code_review_team lead [--strict | --no-strict] | developer ASPECT`.

The lead exits 1 when it was told to be strict and a finding is serious, or when it has nobody to
ask; a developer serves until it is told to stop.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import threading
from collections.abc import Mapping
from pathlib import Path

from code_review_team import developer, lead, memory
from code_review_team.findings import SourceFile
from knowledge_client import KnowledgeClient, errors, retries

_RESULT_BYTES = 4096  # what the kubelet keeps of a termination message
_PATIENCE = retries.RetryPolicy(deadline_s=40, unregistered_s=30)


def main(argv: list[str], env: Mapping[str, str]) -> int:
    """Run one member of the team."""
    parser = argparse.ArgumentParser(prog="code-review-team", description=__doc__)
    roles = parser.add_subparsers(dest="role", required=True)
    leading = roles.add_parser("lead")
    leading.add_argument("--strict", action=argparse.BooleanOptionalAction, default=False)
    roles.add_parser("developer").add_argument("aspect")
    options = parser.parse_args(argv)
    if options.role == "developer":
        return serve(options.aspect)
    return review(env, strict=options.strict)


def serve(aspect: str) -> int:
    """Serve until SIGTERM."""
    try:
        server = developer.server(aspect)
    except KeyError as exc:
        sys.stderr.write(f"{exc.args[0]}\n")
        return 2
    signal.signal(signal.SIGTERM, lambda *_: threading.Thread(target=server.shutdown).start())
    print(f"looking at {aspect} on port {developer.PORT}", flush=True)
    server.serve_forever()
    return 0


def review(env: Mapping[str, str], *, strict: bool) -> int:
    """Lead one review."""
    files = [SourceFile(item["path"], item["text"]) for item in json.loads(env["REVIEW_FILES"])]
    cell, formation = env["CELL_NAME"], env["KAIS_FORMATION"]
    names = lead.peers(Path(env["KAIS_PEERS_FILE"]), cell)
    urls = lead.addresses(formation, names)
    team_review = lead.collect_reviews(urls, files, language=env["REVIEW_LANGUAGE"], post=lead.post)
    file = env.get("KAIS_KNOWLEDGE_FILE")
    known_facts = memory.read(Path(file) if file else None)
    run_id, attempt = env.get("KAIS_RUN_ID") or None, int(env.get("KAIS_ATTEMPT") or 1)
    facts = memory.new_facts(team_review.findings, known_facts, run_id=run_id, attempt=attempt)
    try:
        with KnowledgeClient(retries=_PATIENCE) as store:
            remembered, note = memory.remember(store, facts)
    except errors.KnowledgeError as exc:  # no address is set: there is no store to tell
        remembered, note = [], f"nothing was remembered: {exc}"
    notes = [*team_review.notes, *([note] if note else [])]
    for line in [*map(str, team_review.findings), *notes]:
        print(line)
    result = {
        "verdict": "changes requested" if team_review.findings else "approved",
        "asked": list(names),
        "findings": len(team_review.findings),
        "serious": team_review.is_serious,
        "used_facts": sorted(
            {i for finding in team_review.findings for i in known_facts.ids_about(finding)}
        ),
        "remembered_facts": remembered,
        "notes": notes,
    }
    text = json.dumps(result)[:_RESULT_BYTES]
    Path(env.get("REVIEW_RESULT_FILE", "/dev/termination-log")).write_text(text)
    if not names:
        print("nobody to ask: the topology names no peer of this cell", file=sys.stderr)
        return 1
    return 1 if strict and team_review.is_serious else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], os.environ))
