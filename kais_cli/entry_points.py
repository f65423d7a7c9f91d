"""The programs `kais`, `kubectl-kais` and `kubectl_complete-kais`.

Completion is answered here, before anything loads that it does not need.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kais_cli.completion.candidates import Candidate

_COMPLETE = "__complete"  # `kais __complete SHELL LINE`, which the scripts of the shells call

_INTERRUPTED = 130  # `ExitStatus.INTERRUPTED`, before its module is loaded

_NO_SPACE, _NO_FILES = 2, 4  # the directives of cobra, which kubectl understands


def main() -> int:
    """Run `kais`. Ctrl-C while modules are loaded ends it without a traceback."""
    try:
        return _run()
    except KeyboardInterrupt:
        return _INTERRUPTED


def _run() -> int:
    arguments = sys.argv[1:]
    if len(arguments) == 3 and arguments[0] == _COMPLETE:  # noqa: PLR2004 (its two arguments)
        from kais_cli.completion import shells  # noqa: PLC0415 (only to complete)

        line = shells.split(arguments[2])
        if line is not None:
            candidates = _candidates(line.words, line.incomplete)
            sys.stdout.write(shells.format_candidates(arguments[1], candidates, kept=line.kept))
        return 0
    from kais_cli import app  # noqa: PLC0415 (not to complete)

    return app.main()


def complete_for_kubectl() -> int:
    """Complete `kubectl kais`: kubectl calls this with the words, the last one incomplete."""
    from kais_cli.completion import shells  # noqa: PLC0415 (only to complete)

    *words, incomplete = sys.argv[1:] or [""]
    candidates = shells.plain_words(_candidates(words, incomplete))
    sys.stdout.write(shells.format_candidates("kubectl", candidates))
    is_open = bool(candidates) and all(c.value.endswith("=") for c in candidates)
    sys.stdout.write(f":{_NO_FILES | _NO_SPACE if is_open else _NO_FILES}\n")
    return 0


def _candidates(words: list[str], incomplete: str) -> list[Candidate]:
    from kais_cli import settings  # noqa: PLC0415 (only to complete)
    from kais_cli.completion import candidates  # noqa: PLC0415 (only to complete)
    from kais_cli.completion.cluster_sources import ClusterSources  # noqa: PLC0415 (as above)
    from kais_cli.completion.command_line import parse  # noqa: PLC0415 (as above)

    line = parse(candidates.command_tree(), words)
    kubeconfig = line.value("--kubeconfig") or settings.kubeconfig()
    return candidates.complete(
        words, incomplete, ClusterSources(kubeconfig, line.value("--context"))
    )
