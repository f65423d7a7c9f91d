"""Run the tiers of tests and report, one line each, what ran and what was left out.

Usage: scripts/run_tests.py [TIER...]

Without arguments all tiers run except `store`, which is the part of `contract` that `make quick`
runs. The binaries of the cluster tiers are built in the background while the other tiers run.
Tests run in parallel in as many processes as the tier configures; tests marked `alone` run after
them, one at a time, and tests marked `last` at the end. The `alone` tests of e2e mostly wait for
their own cluster, so they run while the other tiers use the processors.
In the tiers that start processes, up to `MAX_REPEATS` failed tests are repeated once, alone: a busy
machine can fail a test that waits for one. The report names each test that passed only then.
A tier that cannot run on this machine is left out with its reason.
KAIS_REQUIRE_TIERS turns a tier that is missing, empty, failing or skipping tests into a failure.
The last line is `N passed, N failed, N skipped`.
"""

import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parent.parent
REPORTS = ROOT / "build" / "tests"
sys.path[:0] = [str(ROOT)]  # this file is a program outside of the packages

from kais_cluster import demo, errors, operations, preflight, settings, subprocesses  # noqa: E402 - needs the line above
from kais_cluster.status import Status  # noqa: E402

CLUSTER_TIERS = frozenset({"cluster", "e2e"})
REPEATED_TIERS = frozenset({"contract", "npm", *CLUSTER_TIERS})
"""The tiers whose tests start processes and wait for them."""
MINIMUM_NODE = 20
"""The oldest version of Node.js that the MCP clients support."""
REPEAT = "repeat"
MAX_REPEATS = 3
"""More failures than this do not come from a busy machine, so they are not repeated."""


@dataclass(frozen=True)
class Tier:
    """One tier of tests: its location, and why this machine might be unable to run it."""

    name: str
    folders: tuple[str, ...]
    processes: int
    """How many tests run at a time. Tests that mostly wait may take more than there are cores."""
    obstacle: Callable[[], str] = lambda: ""
    """Returns why the tier cannot run on this machine; empty if it can."""
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
    repeated: tuple[str, ...] = ()
    """The tests that failed at first and passed when they were repeated alone."""

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
        details += [f"{len(self.repeated)} passed only when repeated"] * bool(self.repeated)
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


def passed_names(report: Path) -> list[str]:
    """Return the names of the tests that passed, as `module::test`."""
    if not report.exists():
        return []
    return [
        f"{case.get('classname')}::{case.get('name')}"
        for case in ElementTree.parse(report).iter("testcase")  # noqa: S314 - pytest wrote it just now
        if len(case) == 0 or {child.tag for child in case} <= {"properties", "system-out"}
    ]


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


def npm_obstacle() -> str:
    """Return why this machine cannot run the MCP clients of npm; empty if it can."""
    node, npm = subprocesses.find_program("node"), subprocesses.find_program("npm")
    if not node or not npm:
        return f"needs Node.js {MINIMUM_NODE} and npm"
    done = subprocess.run([node, "--version"], capture_output=True, text=True, check=False)
    version = done.stdout.strip().removeprefix("v")
    major = version.partition(".")[0]
    if not major.isdecimal() or int(major) < MINIMUM_NODE:
        return f"needs Node.js {MINIMUM_NODE}, and has {version or 'none'}"
    ping = [npm, "ping", "--fetch-retries=2", "--fetch-timeout=20000"]
    has_registry = subprocess.run(ping, capture_output=True, check=False).returncode == 0
    return "" if has_registry else "needs the registry of npm, which does not answer"


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
    Tier("contract", ("tests/contract",), 3),
    Tier("npm", ("tests/mcp_clients",), 1, npm_obstacle),
    Tier("cluster", ("tests/cluster",), 5, control_plane_obstacle),
    Tier("e2e", ("e2e",), 4, node_obstacle, whole_files=True),
)
STORE = Tier("store", ("tests/contract/store",), 3, names="not fake")
"""The contract of the default store alone."""


def run_tier(tier: Tier) -> Result:
    """Run one tier with pytest, and show its output as it is produced."""
    if reason := skip_reason(tier):
        return Result(tier.name, skip_reason=reason)
    if not build_binaries(tier):
        return Result(tier.name, failed=1)
    started = time.monotonic()
    forget_failures(tier)
    results = [run_part(tier, part) for part in ("parallel", "alone", "last")]
    result = repeat_failed(tier, total(results, seconds=0))
    return replace(result, seconds=time.monotonic() - started)


def skip_reason(tier: Tier) -> str:
    """Return why a tier is left out; empty if it can run."""
    return tier.obstacle() if find_test_files(tier) else "it has no tests yet"


def find_test_files(tier: Tier, *, mark: str = "") -> list[Path]:
    """Return the test files of a tier, or those that contain a mark."""
    files = sorted(path for name in tier.folders for path in (ROOT / name).glob("**/test_*.py"))
    return [path for path in files if not mark or f"mark.{mark}" in path.read_text()]


def build_binaries(tier: Tier) -> bool:
    """Build the binaries that a tier needs, and return whether all of them exist."""
    if tier.name not in CLUSTER_TIERS:
        return True
    subset = ["--no-node"] if tier.name == "cluster" else []
    command = [sys.executable, "-m", "kais_cluster", "build", *subset]
    return subprocess.run(command, cwd=ROOT, check=False).returncode == 0


def run_part(tier: Tier, part: str, *, output: Path | None = None) -> Result:
    """Run the tests of a tier that run in parallel, alone or last, or repeat those that failed.

    With `output`, what pytest prints goes to that file.
    """
    files = list(tier.folders)
    if part == "parallel":
        # A file with a single test may be the longest of all, so files keep their order.
        by_file = ["--dist", "loadfile", "--no-loadscope-reorder"]
        spread = by_file if tier.whole_files else ["--dist", "worksteal"]
        options = ["-m", "not alone and not last", "-n", str(tier.processes), *spread]
    elif part == REPEAT:
        options = ["--last-failed", "--last-failed-no-failures", "none"]
    else:
        options = ["-m", part]
        files = [str(path.relative_to(ROOT)) for path in find_test_files(tier, mark=part)]
        if not files:
            return Result(tier.name, skip_reason="it has no tests")
    subprocesses.print_line(f"--- {tier.name}, {part}: {' '.join(files)}")
    report = REPORTS / f"{tier.name}-{part}.xml"
    report.unlink(missing_ok=True)
    command = [sys.executable, "-m", "pytest", "-q", f"--junitxml={report}", *options]
    command += ["-o", f"cache_dir={cache_of(tier)}"]
    command += ["--use-cluster-as-is"] * (tier.name == "e2e")
    command += ["-k", tier.names, *files] if tier.names else files
    started = time.monotonic()
    with ExitStack() as stack:
        log = stack.enter_context(output.open("wb")) if output else None
        process = subprocess.run(
            command, cwd=ROOT, check=False, stdin=subprocess.DEVNULL, stdout=log, stderr=log
        )
    seconds = time.monotonic() - started
    return read_report(tier.name, report, exit_status=process.returncode, seconds=seconds)


def cache_of(tier: Tier) -> Path:
    """Return where pytest keeps which tests of a tier failed."""
    return REPORTS / f"{tier.name}-cache"


def forget_failures(tier: Tier) -> None:
    """Forget the failures of an earlier run."""
    shutil.rmtree(cache_of(tier), ignore_errors=True)


def repeat_failed(tier: Tier, result: Result) -> Result:
    """Repeat the failed tests of such a tier once, one at a time, and correct the result.

    A test that fails again, or more than `MAX_REPEATS` failures, leave the result as it is.
    """
    if tier.name not in REPEATED_TIERS or not 0 < result.failed <= MAX_REPEATS:
        return result
    run_part(tier, REPEAT)
    repeated = tuple(passed_names(REPORTS / f"{tier.name}-{REPEAT}.xml"))
    passed, failed = result.passed + len(repeated), result.failed - len(repeated)
    return replace(result, passed=passed, failed=failed, repeated=repeated)


def run_tiers(tiers: Sequence[Tier], builder: subprocess.Popen[bytes] | None) -> list[Result]:
    """Run the tiers in their order; the `alone` tests of e2e run beside those before it."""
    e2e = next((tier for tier in tiers if tier.name == "e2e"), None)
    if e2e is None or skip_reason(e2e):
        return [run_tier(tier) for tier in tiers]
    forget_failures(e2e)
    before = [tier for tier in tiers if tier is not e2e]
    log = REPORTS / "e2e-alone.log" if before else None
    with ExitStack() as stack, ThreadPoolExecutor(max_workers=1) as thread:
        alone = thread.submit(start_e2e, e2e, builder, stack, log)
        results = [run_tier(tier) for tier in before]
        parts = [alone.result()]
        if log and log.exists():
            subprocesses.print_line(f"--- e2e, alone, beside the other tiers\n{log.read_text()}")
        if parts[0] is not None:
            parts += [run_part(e2e, part) for part in ("parallel", "last")]
        ran = [part for part in parts if part is not None]
        seconds = sum(part.seconds for part in ran)
        result = total(ran, seconds=seconds) if ran else Result(e2e.name, failed=1)
        results.append(repeat_failed(e2e, result) if ran else result)
    return results


def start_e2e(
    tier: Tier, builder: subprocess.Popen[bytes] | None, stack: ExitStack, log: Path | None
) -> Result | None:
    """Start the cluster of e2e, until `stack` closes, and run the tests that run alone in it.

    The result is None if there is no cluster.
    """
    if builder:
        builder.wait()  # the build below reports its errors
    if not build_binaries(tier):
        return None
    try:
        stack.enter_context(one_cluster())
    except errors.ClusterError as exc:
        subprocesses.print_line(f"e2e: {exc}")
        return None
    return run_part(tier, "alone", output=log)


def total(results: Sequence[Result], *, seconds: float) -> Result:
    """Add up the parts of one tier; it is left out only if none of them has a test."""
    passed, failed, skipped = (
        sum(getattr(result, name) for result in results) for name in ("passed", "failed", "skipped")
    )
    skip_reason = "" if passed + failed + skipped else results[0].skip_reason
    repeated = tuple(name for result in results for name in result.repeated)
    return Result(results[0].name, passed, failed, skipped, seconds, skip_reason, repeated)


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
    cluster_tiers = [t for t in tiers if t.name in CLUSTER_TIERS and not skip_reason(t)]
    if not cluster_tiers:
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
        results = run_tiers(tiers, builder)
    finally:
        if builder and builder.poll() is None:
            builder.terminate()
            builder.wait()
    problems = violations(results, required)
    subprocesses.print_line("")
    overall = total(results, seconds=0)
    repeated = [f"passed only when repeated alone: {name}" for name in overall.repeated]
    for line in [*(result.line() for result in results), *repeated, *problems]:
        subprocesses.print_line(line)
    subprocesses.print_line(
        f"{overall.passed} passed, {overall.failed} failed, {overall.skipped} skipped"
    )
    return 1 if overall.failed or problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
