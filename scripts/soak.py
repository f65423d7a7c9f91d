"""Run the long versions of the tests that `make test` runs short: hours, not minutes.

Usage: scripts/soak.py [NAME...]

Each name is one row of `SOAKS`; none means all that this machine can run. The numbers are those of
the environment where it sets them, so that a soak can be cut short or drawn out.
"""

import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Soak:
    """One long run: what is set, and which tests read it."""

    name: str
    environment: Mapping[str, str]
    tests: tuple[str, ...]


SOAKS = (
    Soak("power", {"KAIS_POWER_CUTS": "5000"}, ("tests/contract/store/test_power.py",)),
    Soak(
        "routes",
        {"KAIS_ROUTE_EXAMPLES": "200"},
        ("tests/contract/service/test_openapi.py", "tests/contract/service/test_hostile_input.py"),
    ),
    Soak("kill", {"KAIS_SOAK_ROUNDS": "500"}, ("tests/contract/service/test_killed.py",)),
    Soak("isolation", {"KAIS_ISOLATION_CASES": "1000000"}, ("tests/contract/isolation",)),
    Soak(
        "operator",
        {"KAIS_SOAK_ROUNDS": "100"},
        ("tests/cluster/test_soak.py", "tests/cluster/test_restart.py"),
    ),
)


def run(soak: Soak) -> bool:
    """Run one row with pytest and say how it went."""
    environment = {**soak.environment, **os.environ}  # noqa: TID251 - handed on as it is
    said = " ".join(f"{name}={environment[name]}" for name in soak.environment)
    print(f"--- {soak.name}: {said} {' '.join(soak.tests)}", flush=True)  # noqa: T201
    started = time.monotonic()
    command = [sys.executable, "-m", "pytest", "-q", *soak.tests]
    done = subprocess.run(command, cwd=ROOT, env=environment, check=False)
    verdict = "passed" if done.returncode == 0 else "FAILED"
    print(f"{soak.name}: {verdict} in {time.monotonic() - started:.0f} s", flush=True)  # noqa: T201
    return done.returncode == 0


def main(names: Sequence[str]) -> int:
    """Run the named rows, or all, one after the other; return the exit status."""
    unknown = set(names) - {soak.name for soak in SOAKS}
    if unknown:
        print(f"no such soak: {', '.join(sorted(unknown))}", file=sys.stderr)  # noqa: T201
        return 2
    results = [run(soak) for soak in SOAKS if not names or soak.name in names]
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
