from pathlib import Path

import pytest

from kais_cluster.status import Status
from scripts import run_tests

REPORT = """<testsuites><testsuite>
<testcase name="passes"/>
<testcase name="fails"><failure message="no"/></testcase>
<testcase name="cannot begin"><error message="fixture"/></testcase>
<testcase name="is skipped"><skipped message="why"/></testcase>
</testsuite></testsuites>"""


def test_report_is_counted_by_outcome(tmp_path):
    report = tmp_path / "unit.xml"
    report.write_text(REPORT)
    result = run_tests.read_report("unit", report, exit_status=1, seconds=2.2)
    assert (result.passed, result.failed, result.skipped) == (1, 2, 1)
    assert result.line() == "unit      ran 4 tests in 2 s (2 failed, 1 skipped)"


def test_tier_that_passes_says_only_its_count_and_time():
    assert (
        run_tests.Result("unit", passed=312, seconds=12.4).line()
        == "unit      ran 312 tests in 12 s"
    )


def test_tier_that_was_left_out_says_why():
    line = run_tests.Result("e2e", skip_reason="needs root").line()
    assert line == "e2e       left out: needs root"


def test_run_that_broke_without_a_report_counts_as_a_failure(tmp_path):
    result = run_tests.read_report("unit", tmp_path / "none.xml", exit_status=4, seconds=0)
    assert result.failed == 1


def test_empty_run_is_left_out(tmp_path):
    result = run_tests.read_report("unit", tmp_path / "none.xml", exit_status=5, seconds=0)
    assert result.skip_reason == "it has no tests"


@pytest.mark.parametrize(
    ("result", "problem"),
    [
        pytest.param(
            run_tests.Result("e2e", skip_reason="needs root"),
            "e2e is required, and was left out: needs root",
            id="left out",
        ),
        pytest.param(
            run_tests.Result("e2e", passed=3, skipped=2),
            "e2e is required, and skipped 2 of its tests",
            id="skipping",
        ),
        pytest.param(
            run_tests.Result("unit", passed=3),
            "e2e is required, and there is no such tier in this run",
            id="missing",
        ),
    ],
)
def test_required_tier_must_run_in_full(result, problem):
    assert run_tests.violations([result], frozenset({"e2e"})) == [problem]


def test_tier_that_is_not_required_may_be_left_out():
    assert (
        run_tests.violations([run_tests.Result("e2e", skip_reason="needs root")], frozenset()) == []
    )


def test_parts_of_a_tier_are_added_up():
    result = run_tests.Result("e2e", passed=40, failed=1)
    alone = run_tests.Result("e2e", passed=9, skipped=2)
    assert run_tests.total([result, alone], seconds=61.2) == run_tests.Result("e2e", 49, 1, 2, 61.2)


def test_tier_without_tests_that_must_run_alone_is_not_left_out():
    alone = run_tests.Result("unit", skip_reason="it has no tests")
    assert run_tests.total([run_tests.Result("unit", passed=7), alone], seconds=1).skip_reason == ""


def test_tier_whose_parts_are_all_empty_is_left_out():
    empty = run_tests.Result("unit", skip_reason="it has no tests")
    assert run_tests.total([empty, empty], seconds=1).skip_reason == "it has no tests"


def test_unknown_tier_is_named(capsys):
    assert run_tests.main(["nonsense"]) == 2
    assert "no such tier: nonsense" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("status", "words"),
    [
        pytest.param(
            Status("host", "node", answers=True, directory=Path("/s")),
            "using the cluster that is up in /s, and leaving it up",
            id="a demo cluster is reused",
        ),
        pytest.param(
            Status("host", "node", answers=False, directory=Path("/s")),
            "what an earlier run left behind in /s is stopped first",
            id="a dead cluster is stopped",
        ),
        pytest.param(
            Status("host", "down", answers=False, directory=Path("/s")),
            "starting a cluster, and stopping it at the end",
            id="there is none",
        ),
    ],
)
def test_it_says_which_cluster_is_used(status, words):
    assert run_tests.cluster_words(status) == words


def test_files_with_tests_that_must_run_alone_are_found_by_their_mark(tmp_path, monkeypatch):
    monkeypatch.setattr(run_tests, "ROOT", tmp_path)
    folder = tmp_path / "tests"
    folder.mkdir()
    (folder / "test_beside.py").write_text("def test_it(): ...")
    (folder / "test_alone.py").write_text("@pytest.mark.alone\ndef test_it(): ...")
    tier = run_tests.Tier("unit", ("tests",), 1)
    assert [path.name for path in run_tests.find_test_files(tier)] == [
        "test_alone.py",
        "test_beside.py",
    ]
    assert [path.name for path in run_tests.find_test_files(tier, mark="alone")] == [
        "test_alone.py"
    ]


FAILS_AT_FIRST = """
from pathlib import Path

def test_that_fails_at_first():
    mark = Path(__file__).with_name("ran")
    ran = mark.exists()
    mark.touch()
    assert ran

def test_that_passes():
    assert Path(__file__).with_name("passes").touch() is None
"""
ALWAYS_FAILS = "def test_that_always_fails():\n    raise AssertionError\n"


@pytest.fixture
def tier_of(tmp_path, monkeypatch):
    """Return a function that makes a tier with one file of tests, outside of this project."""
    # The plugins that these tests do not use take a second of each start.
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("PYTEST_PLUGINS", "xdist.plugin")
    monkeypatch.setattr(run_tests, "ROOT", tmp_path)
    monkeypatch.setattr(run_tests, "REPORTS", tmp_path / "build")
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers =\n    alone\n    last\n")
    (tmp_path / "tests").mkdir()

    def create(name: str, text: str) -> run_tests.Tier:
        (tmp_path / "tests" / "test_it.py").write_text(text)
        monkeypatch.setattr(run_tests, "build_binaries", lambda tier: True)
        return run_tests.Tier(name, ("tests",), 1)

    return create


def test_failed_test_of_a_cluster_tier_that_passes_when_repeated_is_reported_as_such(tier_of):
    result = run_tests.run_tier(tier_of("cluster", FAILS_AT_FIRST))
    assert (result.passed, result.failed) == (2, 0)
    assert [name.rpartition("::")[2] for name in result.repeated] == ["test_that_fails_at_first"]
    assert result.line().endswith("s (1 passed only when repeated)")


def test_test_that_fails_twice_fails_its_tier(tier_of):
    result = run_tests.run_tier(tier_of("cluster", FAILS_AT_FIRST + ALWAYS_FAILS))
    assert (result.passed, result.failed, len(result.repeated)) == (2, 1, 1)


def test_unit_tests_are_never_repeated(tier_of):
    result = run_tests.run_tier(tier_of("unit", FAILS_AT_FIRST))
    assert (result.passed, result.failed, result.repeated) == (1, 1, ())


def test_many_failures_are_not_repeated(tier_of):
    many = "".join(
        f"def test_{number}():\n    raise AssertionError\n"
        for number in range(run_tests.MAX_REPEATS + 1)
    )
    result = run_tests.run_tier(tier_of("cluster", many))
    assert (result.passed, result.failed) == (0, run_tests.MAX_REPEATS + 1)
    assert not (run_tests.REPORTS / "cluster-repeat.xml").exists()


@pytest.mark.parametrize(
    ("programs", "obstacle"),
    [
        ({"node": "echo v20.1.0", "npm": "exit 0"}, ""),
        ({"node": "echo v22.0.0", "npm": "exit 0"}, ""),
        ({"node": "echo v18.19.1", "npm": "exit 0"}, "needs Node.js 20, and has 18.19.1"),
        ({"node": "echo v20.1.0"}, "needs Node.js 20 and npm"),
        (
            {"node": "echo v20.1.0", "npm": "exit 1"},
            "needs the registry of npm, which does not answer",
        ),
        ({}, "needs Node.js 20 and npm"),
    ],
)
def test_the_tier_npm_says_which_node_it_lacks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, programs: dict[str, str], obstacle: str
) -> None:
    for name, command in programs.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{command}\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert run_tests.npm_obstacle() == obstacle
