"""Run the tiers of tests and report, one line each, what ran and what was left out.

Usage: scripts/run_tests.py [TIER...]

Without arguments all tiers run except `store`, which is the part of `contract` that `make quick`
runs. The binaries of the cluster tiers are built in the background while the other tiers run.
Tests run in parallel in as many processes as the tier configures; tests marked `alone` run after
them, one at a time. A tier that cannot run on this machine is left out with its reason.
KAIS_REQUIRE_TIERS turns a tier that is missing, empty, failing or skipping tests into a failure.
The last line is `N passed, N failed, N skipped`.
"""

import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parent.parent
REPORTS = ROOT / "build" / "tests"
sys.path[:0] = [str(ROOT)]  # this file is a program outside of the packages

from kais_cluster import demo, errors, operations, preflight, settings, subprocesses  # noqa: E402 - needs the line above
from kais_cluster.status import Status  # noqa: E402

CLUSTER_TIERS = frozenset({"cluster", "e2e"})


@dataclass(frozen=True)
class Tier:
    """One tier of tests: its location, and why this machine might be unable to run it."""

    name: str
    folders: tuple[str, ...]
    processes: int
    """How many tests run at a time. Tests that mostly wait may take more than there are cores."""
    obstacle: Callable[[], str] = lambda: ""
    """Say why the tier cannot run here, or nothing."""
    names: str = ""
    """Which of the tests run, as an expression of pytest's `-k`; all when empty."""
    whole_files: bool = False
    """Whether the tests of a file run in one process, one after another."""


@dataclass(frozen=True)
class Result:
    """The result of one tier."""

    name: str
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    seconds: float = 0.0
    skip_reason: str = ""

    @property
    def count(self) -> int:
        """Return the number of tests."""
        return self.passed + self.failed + self.skipped

    def line(self) -> str:
        """Format the tier's line."""
        if self.skip_reason:
            return f"{self.name:<9} left out: {self.skip_reason}"
        details = [f"{self.failed} failed"] * bool(self.failed)
        details += [f"{self.skipped} skipped"] * bool(self.skipped)
        suffix = f" ({', '.join(details)})" if details else ""
        return f"{self.name:<9} ran {self.count} tests in {self.seconds:.0f} s{suffix}"


def read_report(name: str, report: Path, *, exit_status: int, seconds: float) -> Result:
    """Read pytest's report; a run that failed without a failed test counts as one failure."""
    passed = failed = skipped = 0
    if report.exists():
        for case in ElementTree.parse(report).iter("testcase"):  # noqa: S314 - pytest wrote it just now
            outcome = {child.tag for child in case}
            if outcome & {"failure", "error"}:
                failed += 1
            elif "skipped" in outcome:
                skipped += 1
            else:
                passed += 1
    no_tests = 5  # pytest's exit status for an empty run
    if exit_status not in {0, no_tests} and failed == 0:
        failed = 1
    if passed + failed + skipped == 0:
        return Result(name, seconds=seconds, skip_reason="it has no tests")
    return Result(name, passed, failed, skipped, seconds)


def violations(results: Sequence[Result], required: frozenset[str]) -> list[str]:
    """Return the problems of required tiers: everything except a complete and passing run."""
    problems = []
    by_name = {result.name: result for result in results}
    for name in sorted(required):
        result = by_name.get(name)
        if result is None:
            problems.append(f"{name} is required, and there is no such tier in this run")
        elif result.skip_reason:
            problems.append(f"{name} is required, and was left out: {result.skip_reason}")
        elif result.skipped:
            problems.append(f"{name} is required, and skipped {result.skipped} of its tests")
    return problems


def node_obstacle() -> str:
    """Return why this machine cannot run a cluster with a node; empty if it can."""
    if settings.named_kubeconfig():
        return ""
    return _needs(node=True)


def control_plane_obstacle() -> str:
    """Return why this machine cannot run a control plane; empty if it can."""
    return _needs(node=False)


def _needs(*, node: bool) -> str:
    names = [item.name for item in preflight.find_missing(node=node)]
    return f"needs {', '.join(names)}" if names else ""


def cluster_words(status: Status) -> str:
    """Describe the cluster that the end-to-end tests will use."""
    if status.mode == "named":
        return f"using the cluster of {status.kubeconfig}"
    if status.mode == "node" and status.is_up:
        return f"using the cluster that is up in {status.directory}, and leaving it up"
    if status.mode == "node":
        return f"what an earlier run left behind in {status.directory} is stopped first"
    return "starting a cluster, and stopping it at the end"


TIERS = (
    Tier("unit", ("tests/unit", "tests/cli", "tests/architecture"), 2),
    Tier("contract", ("tests/contract",), 2),
    Tier("cluster", ("tests/cluster",), 4, control_plane_obstacle),
    Tier("e2e", ("e2e",), 3, node_obstacle, whole_files=True),
)
STORE = Tier("store", ("tests/contract/store",), 2, names="not fake")
"""The contract of the default store alone."""


def run_tier(tier: Tier) -> Result:
    """Run one tier with pytest, and show its output as it is produced."""
    folders = [name for name in tier.folders if any((ROOT / name).glob("**/test_*.py"))]
    if not folders:
        return Result(tier.name, skip_reason="it has no tests yet")
    if reason := tier.obstacle():
        return Result(tier.name, skip_reason=reason)
    started = time.monotonic()
    if tier.name in CLUSTER_TIERS:
        subset = ["--no-node"] if tier.name == "cluster" else []
        command = [sys.executable, "-m", "kais_cluster", "build", *subset]
        if subprocess.run(command, cwd=ROOT, check=False).returncode != 0:
            return Result(tier.name, failed=1, seconds=time.monotonic() - started)
        started = time.monotonic()
    if tier.name != "e2e":
        return run_files(tier, folders, started)
    try:
        with one_cluster():
            return run_files(tier, folders, started)
    except errors.ClusterError as exc:
        subprocesses.print_line(f"e2e: {exc}")
        return Result(tier.name, failed=1, seconds=time.monotonic() - started)


def run_files(tier: Tier, folders: Sequence[str], started: float) -> Result:
    """Run the tests of a tier in parallel, then those that must run alone."""
    subprocesses.print_line(f"--- {tier.name}: {' '.join(folders)}")
    # A file with a single test may be the longest of all, so files keep their order.
    by_file = ["--dist", "loadfile", "--no-loadscope-reorder"]
    spread = by_file if tier.whole_files else ["--dist", "worksteal"]
    parallel_options = ["-m", "not alone", "-n", str(tier.processes), *spread]
    results = []
    for part, options in {"beside": parallel_options, "alone": ["-m", "alone"]}.items():
        report = REPORTS / f"{tier.name}-{part}.xml"
        report.unlink(missing_ok=True)
        command = [sys.executable, "-m", "pytest", "-q", f"--junitxml={report}", *options]
        command += ["-k", tier.names, *folders] if tier.names else folders
        process = subprocess.run(command, cwd=ROOT, check=False, stdin=subprocess.DEVNULL)
        results.append(read_report(tier.name, report, exit_status=process.returncode, seconds=0))
    return total(results, seconds=time.monotonic() - started)


def total(results: Sequence[Result], *, seconds: float) -> Result:
    """Add up the parts of one tier; it is left out only if none of them has a test."""
    passed, failed, skipped = (
        sum(getattr(result, name) for result in results) for name in ("passed", "failed", "skipped")
    )
    skip_reason = "" if passed + failed + skipped else results[0].skip_reason
    return Result(results[0].name, passed, failed, skipped, seconds, skip_reason)


@contextmanager
def one_cluster() -> Iterator[None]:
    """Provide one cluster with kais to all processes of the end-to-end tests.

    A cluster that is already up stays up.

    Raises:
        ClusterError: The cluster did not start.
    """
    status = operations.current_cluster().status()
    subprocesses.print_line(f"e2e: {cluster_words(status)}")
    try:
        demo.prepare()
        yield
    finally:
        if status.mode not in {"node", "named"}:
            operations.down()


def build_in_background(tiers: Sequence[Tier]) -> subprocess.Popen[bytes] | None:
    """Start building the binaries, at a lower priority, if a tier needs them."""
    cluster_tiers = [tier for tier in tiers if tier.name in CLUSTER_TIERS and not tier.obstacle()]
    if not any(
        any((ROOT / name).glob("**/test_*.py")) for t in cluster_tiers for name in t.folders
    ):
        return None
    subset = [] if any(tier.name == "e2e" for tier in cluster_tiers) else ["--no-node"]
    with (REPORTS / "binaries.log").open("wb") as log:
        return subprocess.Popen(
            ["nice", "-n", "10", sys.executable, "-m", "kais_cluster", "build", *subset],
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )


def main(names: Sequence[str]) -> int:
    """Run the named tiers, or all, and return the exit status."""
    unknown = set(names) - {tier.name for tier in (*TIERS, STORE)}
    if unknown:
        subprocesses.print_line(f"no such tier: {', '.join(sorted(unknown))}")
        return 2
    tiers = [tier for tier in (*TIERS, STORE) if tier.name in names] if names else list(TIERS)
    required = settings.required_tiers()
    if names:
        required &= set(names)
    REPORTS.mkdir(parents=True, exist_ok=True)
    builder = build_in_background(tiers) if len(tiers) > 1 else None
    try:
        results = [run_tier(tier) for tier in tiers]
    finally:
        if builder and builder.poll() is None:
            builder.terminate()
            builder.wait()
    problems = violations(results, required)
    subprocesses.print_line("")
    for line in [*(result.line() for result in results), *problems]:
        subprocesses.print_line(line)
    overall = total(results, seconds=0)
    subprocesses.print_line(
        f"{overall.passed} passed, {overall.failed} failed, {overall.skipped} skipped"
    )
    return 1 if overall.failed or problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
