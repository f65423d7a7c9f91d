"""What others wrote is matched and read in a process with limits: it cannot hang a terminal."""

import copy
import time

import pytest

from kais_cli.blueprints import render_requests
from kais_cli.exit_status import ExitStatus
from kais_rendering import worker_handle, yaml_documents
from tests.cli import objects

BOMB = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 10)
)
MERGES = "a0: &a0 {x: 1}\n" + "".join(
    f"a{n}: &a{n} {{<<: [{', '.join([f'*a{n - 1}'] * 9)}]}}\n" for n in range(1, 10)
)
TEXTS = f"a: &a {'x' * 100_000}\nb: [{', '.join(['*a'] * 200)}]\n"
MESSAGE = "its aliases expand it to more than 100,000 values or 10 MB of text"


def hanging(name: str) -> dict:
    body = copy.deepcopy(getattr(objects, name)())
    (parameter,) = [p for p in body["spec"]["parameters"] if p["name"] == "who"]
    parameter["pattern"] = "(a+)+$"
    return body


@pytest.mark.parametrize("verb", ["render", "use"])
def test_a_pattern_of_a_blueprint_that_never_ends_is_stopped_and_named(
    terminal, cluster, monkeypatch, verb
):
    monkeypatch.setattr(render_requests, "_LIMIT_S", 2)
    cluster.put(hanging("blueprint"))
    cluster.put(hanging("revision"))
    started_at = time.monotonic()
    status = terminal.run("blueprint", verb, "doctor", "--set", f"who={'a' * 40}!")
    assert status == ExitStatus.USAGE
    assert "Blueprint/demo/doctor took more than 2 s, at parameter 'who'" in terminal.err
    assert "its pattern does not end on this value" in terminal.err
    assert cluster.created == []
    assert time.monotonic() - started_at < 120


def test_values_that_break_a_pattern_are_told_as_ever(terminal, cluster):
    for body in (hanging("blueprint"), hanging("revision")):
        cluster.put(body)
    assert terminal.run("blueprint", "use", "doctor", "--set", "who=b") == ExitStatus.USAGE
    assert "parameter 'who': must match (a+)+$, got \"b\"" in terminal.err


@pytest.mark.parametrize("text", [BOMB, MERGES, TEXTS], ids=["aliases", "merge keys", "texts"])
@pytest.mark.parametrize(
    "command",
    [
        ("blueprint", "use", "doctor", "--values"),
        ("blueprint", "render", "doctor", "--values"),
        ("blueprint", "validate", "-f"),
        ("blueprint", "diff", "doctor", "-f"),
    ],
    ids=" ".join,
)
def test_a_file_whose_aliases_make_it_huge_is_refused_by_name_and_limit(
    terminal, cluster, tmp_path, command, text
):
    cluster.put(objects.blueprint())
    cluster.put(objects.revision())
    file = tmp_path / "bomb.yaml"
    file.write_text(text)
    assert terminal.run(*command, str(file)) == ExitStatus.USAGE
    assert str(file) in terminal.err
    assert MESSAGE in terminal.err


def test_aliases_of_a_reasonable_file_are_read():
    text = "defaults: &d {image: 'a:1', args: [x]}\none: *d\ntwo: {<<: *d, image: 'b:1'}\n"
    (result,) = yaml_documents.read(text)
    assert result["one"] == {"image": "a:1", "args": ["x"]}
    assert result["two"] == {"image": "b:1", "args": ["x"]}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: &a [*a]", "an alias stands inside what it names"),
        ("a: [", "while parsing"),
        ("[" * 5000 + "]" * 5000, "recursion"),
        ("a: " + "1" * 5000, "4300"),
        ("? [1, 2]\n: x", "unhashable"),
    ],
    ids=["a cycle", "no YAML", "deep", "a long number", "a key that is a list"],
)
def test_what_cannot_be_read_says_why(text, message):
    with pytest.raises(yaml_documents.YamlRefused, match=message):
        yaml_documents.read(text)


@pytest.mark.parametrize("text", ["a: !!binary aGVsbG8=", "a: !!set {x, y}", f"a: 0x{'f' * 5000}"])
def test_what_json_cannot_hold_is_refused_in_words(tmp_path, text):
    file = tmp_path / "odd.yaml"
    file.write_text(text)
    with pytest.raises(render_requests.errors.UsageError, match=r"odd\.yaml: .*JSON"):
        render_requests.parse_yaml(file.read_text(), subject=str(file))


def test_dates_stay_text():
    assert yaml_documents.read("since: 2026-01-31\n") == [{"since": "2026-01-31"}]


def test_a_file_that_takes_too_long_to_read_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(render_requests, "_LIMIT_S", 0.001)
    file = tmp_path / "slow.yaml"
    file.write_text("- {a: [1, 2]}\n" * 20_000)
    with pytest.raises(render_requests.errors.UsageError, match=r"reading .*slow\.yaml took more"):
        render_requests.parse_yaml(file.read_text(), subject=str(file))


def test_a_worker_that_exceeded_a_limit_is_replaced(tmp_path, monkeypatch):
    file = tmp_path / "slow.yaml"
    file.write_text("- {a: [1, 2]}\n" * 20_000)
    monkeypatch.setattr(render_requests, "_LIMIT_S", 0.001)
    with pytest.raises(render_requests.errors.UsageError):
        render_requests.parse_yaml(file.read_text(), subject=str(file))
    monkeypatch.setattr(render_requests, "_LIMIT_S", 10.0)
    assert render_requests.parse_yaml("a: 1", subject="x") == [{"a": 1}]


def test_the_requests_of_a_program_share_one_worker(monkeypatch):
    starts = []
    start = worker_handle.RenderProcess.start

    async def counted(*, memory_mib):
        starts.append(memory_mib)
        return await start(memory_mib=memory_mib)

    render_requests.parse_yaml("a: 1", subject="x")
    monkeypatch.setattr(worker_handle.RenderProcess, "start", counted)
    render_requests.parse_yaml("a: 2", subject="x")
    assert not starts
