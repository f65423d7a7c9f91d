"""Run the long versions of the tests that `make test` runs in a short version: hours, not minutes.

Usage: scripts/soak.py [NAME[:PART]...]

Each name is one row of `SOAKS`; without names all rows run. A long row has independent parts,
numbered from 0, so that it can be continued: `isolation:3` is the fourth of its ten. Numbers in
the environment take precedence, so that a soak can be shortened or extended.
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
    """One long run: its settings, the tests that read them, and the number of parts."""

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
    """Return the selected rows or parts in the order of `SOAKS`; all without names.

    Raises:
        ValueError: A name is not a row, or not a part of one.
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
    """Run one part of a row with pytest and report the result."""
    environment = {**soak.environment, **os.environ}  # noqa: TID251 - passed on unchanged
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
    ]  # tests that run for hours do not hang
    process = subprocess.run(
        command, cwd=ROOT, env={**environment, "KAIS_SOAK_PART": str(part)}, check=False
    )
    verdict = "passed" if process.returncode == 0 else "FAILED"
    print(f"{name}: {verdict} in {time.monotonic() - started:.0f} s", flush=True)  # noqa: T201
    return process.returncode == 0


def main(names: Sequence[str]) -> int:
    """Run the selected rows and parts, or all, in sequence; return the exit status."""
    try:
        parts = select_parts(names)
    except ValueError as error:
        print(error, file=sys.stderr)  # noqa: T201
        return 2
    results = [run(soak, part) for soak, part in parts]
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
