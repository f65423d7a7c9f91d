"""Run the long versions of the tests that `make test` runs short: hours, not minutes.

Usage: scripts/soak.py [NAME[:PART]...]

Each name is one row of `SOAKS`; none means all. A long row has parts that share nothing, numbered
from 0, so that it can be gone on with: `isolation:3` is the fourth of its ten. The numbers are
those of the environment where it sets them, so that a soak can be cut short or drawn out.
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
    """One long run: what is set, which tests read it, and in how many parts."""

    name: str
    environment: Mapping[str, str]
    tests: tuple[str, ...]
    parts: int = 1


SOAKS = (
    Soak("power", {"KAIS_POWER_CUTS": "5000"}, ("tests/contract/store/test_power.py",)),
    Soak(
        "routes",
        {"KAIS_ROUTE_EXAMPLES": "200"},
        ("tests/contract/service/test_openapi.py", "tests/contract/service/test_hostile_input.py"),
    ),
    Soak("kill", {"KAIS_SOAK_ROUNDS": "500"}, ("tests/contract/service/test_killed.py",)),
    Soak("isolation", {"KAIS_ISOLATION_CASES": "100000"}, ("tests/contract/isolation",), parts=10),
    Soak(
        "operator",
        {"KAIS_SOAK_ROUNDS": "100"},
        ("tests/cluster/test_soak.py", "tests/cluster/test_restart.py"),
    ),
)


def select_parts(names: Sequence[str]) -> list[tuple[Soak, int]]:
    """Return what is named, rows or parts of them, in the order of `SOAKS`; all without a name.

    Raises:
        ValueError: something is named that is no row, or no part of one.
    """
    parts = {_name(soak, part): (soak, part) for soak in SOAKS for part in range(soak.parts)}
    selected = {key for key, (soak, _) in parts.items() if not names or {key, soak.name} & {*names}}
    valid_names = {*parts, *(soak.name for soak in SOAKS)}
    unknown = sorted({*names} - valid_names)
    if unknown:
        raise ValueError(f"no such soak: {', '.join(unknown)}; there are {', '.join(parts)}")
    return [soak_part for key, soak_part in parts.items() if key in selected]


def _name(soak: Soak, part: int) -> str:
    return f"{soak.name}:{part}" if soak.parts > 1 else soak.name


def run(soak: Soak, part: int) -> bool:
    """Run one part of a row with pytest and say how it went."""
    environment = {**soak.environment, **os.environ}  # noqa: TID251 - handed on as it is
    variables = " ".join(f"{name}={environment[name]}" for name in soak.environment)
    name = _name(soak, part)
    print(f"--- {name}: {variables} {' '.join(soak.tests)}", flush=True)  # noqa: T201
    started = time.monotonic()
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "--timeout=0",
        *soak.tests,
    ]  # hours are no hang
    process = subprocess.run(
        command, cwd=ROOT, env={**environment, "KAIS_SOAK_PART": str(part)}, check=False
    )
    verdict = "passed" if process.returncode == 0 else "FAILED"
    print(f"{name}: {verdict} in {time.monotonic() - started:.0f} s", flush=True)  # noqa: T201
    return process.returncode == 0


def main(names: Sequence[str]) -> int:
    """Run the named rows and parts, or all, one after the other; return the exit status."""
    try:
        parts = select_parts(names)
    except ValueError as error:
        print(error, file=sys.stderr)  # noqa: T201
        return 2
    results = [run(soak, part) for soak, part in parts]
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
