"""Memory files: import, export, mirror and copies, at a real service."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
import os
import shutil
import subprocess
import sys
import threading
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path

import anyio
import httpx
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import get_default_environment, stdio_client

from e2e.support import documents
from kais_cli import errors
from kais_cli.environment import ClusterOptions
from kais_cli.exit_status import ExitStatus
from kais_cli.graph.mirror import Mirror, check_path, identify, list_copies
from kais_cli.mcp import serving
from kais_cli.mcp.mirrored_knowledge import MirroredKnowledge
from kais_cli.session import Session
from knowledge_client import KnowledgeClient, models
from knowledge_client import errors as knowledge_errors

# As server-memory writes: no metadata, and no line break at the end.
SERVER_MEMORY = """\
{"type":"entity","name":"Ada","entityType":"person","observations":["Speaks French","Sails"]}
{"type":"entity","name":"Harbour","entityType":"project","observations":[]}
{"type":"relation","from":"Ada","to":"Harbour","relationType":"works on"}"""
# As coaia-memory writes a chart.
COAIA = """\
# charts
{"type":"entity","name":"chart_7_chart","entityType":"structural_tension_chart",\
"observations":["Chart created on 2026-01-02T03:04:05.678Z"],"metadata":{"chartId":"chart_7",\
"dueDate":"2026-05-01","level":0,"createdAt":"2026-01-02T03:04:05.678Z"}}
{"type":"entity","name":"chart_7_desired_outcome","entityType":"desired_outcome",\
"observations":["Five songs on the guitar"],"metadata":{"chartId":"chart_7","phase":"germination"}}
{"type":"entity","name":"chart_7_action_1","entityType":"action_step",\
"observations":["Find a teacher"],"metadata":{"chartId":"chart_7","completionStatus":false}}
{"type":"relation","from":"chart_7_chart","to":"chart_7_desired_outcome",\
"relationType":"contains","metadata":{"createdAt":"2026-01-02T03:04:05.678Z","strength":0.5}}
{"type":"relation","from":"chart_7_action_1","to":"chart_7_desired_outcome",\
"relationType":"advances_toward","metadata":{"createdAt":"2026-01-02T03:04:05.678Z"}}
"""


@pytest.fixture
def graph(shell):
    def run(*arguments, status=0):
        return shell("graph", *arguments, status=status)

    run.terminal = shell.terminal
    yield run
    names = [each["name"] for each in json.loads(run("list", "--all", "-o", "json"))["entities"]]
    for start in range(0, len(names), 100):
        run("delete", *names[start : start + 100])


@pytest.fixture
def file(tmp_path, graph):
    def imported(content, *, status=0):
        path = tmp_path / "memory.jsonl"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        graph("import", "--from", str(path), status=status)
        return graph.terminal.err.replace(str(path), "FILE").splitlines()

    return imported


def records(text):
    return sorted((json.loads(line) for line in text.split("\n") if line), key=json.dumps)


@pytest.mark.parametrize("text", [SERVER_MEMORY, COAIA], ids=["server-memory", "coaia-memory"])
def test_a_memory_file_comes_back_unchanged(graph, file, text):
    file(text)
    lines = "\n".join(line for line in text.splitlines() if not line.startswith("#"))
    assert records(graph("export", "--to", "-")) == records(lines)


ENTITIES = SERVER_MEMORY.rpartition("\n")[0]
TYPES_IN_METADATA = [
    f'{{"type":"relation","from":"Ada","to":"Harbour","relationType":"{kind}",'
    f'"metadata":{{"relationType":{value}}}}}'
    for kind, value in (("knows", 5), ("Works on", 5), ("likes", "null"), ("helps", '"hates"'))
]


def test_a_file_whose_metadata_has_the_key_of_the_type_comes_back_unchanged(graph, file, tmp_path):
    text = "\n".join((ENTITIES, *TYPES_IN_METADATA))
    file(text)
    assert records(graph("export", "--to", "-")) == records(text)
    path = tmp_path / "mirror.jsonl"
    graph("mirror", "--to", str(path))
    assert records(path.read_text()) == records(text)


def test_an_import_can_be_repeated(graph, file):
    assert file(SERVER_MEMORY) == ["2 entities, 2 observations, 1 relation created"]
    again = SERVER_MEMORY.replace('"Sails"', '"Sails","Swims"')
    assert file(again) == [
        "0 entities, 1 observation, 0 relations created; 3 existing left as they are"
    ]
    assert "Swims" in graph("open", "Ada")


def test_a_torn_last_line_is_left_out_and_reported(graph, file):
    torn = SERVER_MEMORY[:-9]
    assert file(torn) == [
        "FILE, line 3: torn, left out",
        "2 entities, 2 observations, 0 relations created",
    ]


def test_a_damaged_line_costs_only_itself(graph, file):
    nested = "[" * 100_000
    entity = '{"type":"entity","name":"%s","entityType":"x","observations":%s}\n'
    bad = [
        "{\n", "[]\n", f"{nested}\n", '{"type":"session"}\n', b"\xff\xfe\n",
        entity % ("", "[]"), entity % ("n" * 513, "[]"), entity % ("a", '"text"'),
        entity % ("a", "[1]"), entity % ("\\ud800", "[]"),
        '{"type":"relation","from":"Ada","to":"nobody","relationType":"knows"}\n',
        '{"type":"relation","from":"Ada","relationType":"knows"}\n',
    ]  # fmt: skip
    content = b"".join(each if isinstance(each, bytes) else each.encode() for each in bad)
    said = file(content + SERVER_MEMORY.encode(), status=1)
    assert said[-1] == ("2 entities, 2 observations, 1 relation created; 12 lines left out")
    assert "FILE, line 2 is not a JSON object; left out" in said
    assert 'FILE, line 4 has no "type" that is entity or relation; left out' in said
    assert any("line 11 is refused: entity 'nobody' does not exist" in line for line in said)


@pytest.mark.parametrize("content", ["", "\n\n# only a comment\n"])
def test_an_empty_file_imports_nothing(file, content):
    assert file(content) == ["0 entities, 0 observations, 0 relations created"]


# With each character up to 255, and some that files and terminals treat in their own way.
NAMES = [
    *(f"a {chr(code)} {code}" for code in range(256)),
    *(
        "a\t'\"\\ /{}: \u202e\U0001f409 ä",
        "Zo\u00eb",
        "\u2028x",
        "\ufeff",
        "..",
        "x" * 512,
    ),
]


def test_names_may_have_every_character(graph, file, tmp_path):
    lines = [
        {"type": "entity", "name": name, "entityType": "x", "observations": [name, "two\nlines"]}
        for name in NAMES
    ]
    text = "\n".join(map(json.dumps, lines))
    assert file(text) == [
        f"{len(NAMES)} entities, {2 * len(NAMES)} observations, 0 relations created"
    ]
    assert records(graph("export", "--to", "-")) == records(text)
    path = tmp_path / "mirror.jsonl"
    graph("mirror", "--to", str(path))
    assert records(path.read_bytes().decode()) == records(text)


@pytest.mark.parametrize("name", [NAMES[1], NAMES[0], NAMES[27], *NAMES[-6:]], ids=ascii)
def test_a_name_with_any_character_is_typed_at_the_command_line(graph, name):
    graph("create", name, "--type", "x", "--observation", name)
    (opened,) = json.loads(graph("open", name, "-o", "json"))["entities"]
    assert (opened["name"], opened["observations"]) == (name, [name])
    shown = graph("open", name)
    assert not any(each in shown for each in "\0\1\x1b\u202e")


@pytest.mark.parametrize(
    "name", [b"\xff", b"\xc0\x80", b"\xed\xa0\x80", b"\\ud800", b" ", b""], ids=ascii
)
def test_a_name_that_cannot_be_stored_costs_its_line(file, name):
    line = b'{"type":"entity","name":"%s","entityType":"x","observations":[]}\n' % name
    said = file(line + SERVER_MEMORY.encode(), status=1)
    assert said[0].startswith("FILE, line 1 is ")
    assert said[0].endswith("; left out")
    assert said[0] != "FILE, line 1 is refused: the fact breaks limits; left out", "without reason"
    assert said[1:] == ["2 entities, 2 observations, 1 relation created; 1 line left out"]


@pytest.mark.parametrize(
    "line",
    [
        '{"type":"entity","name":"e","entityType":"x","observations":[],"metadata":{"%s":1}}\n',
        '{"type":"entity","name":"e","entityType":"x","observations":[],"further":["%s"]}\n',
        '{"type":"relation","from":"Ada","to":"Ada","relationType":"r","metadata":{"a":"%s"}}\n',
    ],
    ids=["key", "further", "relation"],
)
def test_metadata_with_half_a_character_costs_its_line(file, line):
    said = file((line % "\\ud800").encode() + SERVER_MEMORY.encode(), status=1)
    assert said == [
        "FILE, line 1 has metadata with half a character, which cannot be sent; left out",
        "2 entities, 2 observations, 1 relation created; 1 line left out",
    ]


# The peak of a process alone: `ru_maxrss` of a child counts the pages of who started it.
MEASURED = """
import pathlib, sys
from kais_cli.entry_points import main
try:
    sys.exit(main())
finally:
    status = pathlib.Path("/proc/self/status").read_text()
    pathlib.Path(PEAK).write_text(status.partition("VmHWM:")[2].split()[0])
"""
MIB = 1 << 20
MAX_PEAK_KIB = 256 * 1024  # 52 MiB are the program itself
LONG_LINE = "line 1 is longer than 16,777,216 bytes; left out"


def sparse_line(path):
    """One line of 300 MiB, then the records of server-memory."""
    with path.open("wb") as stream:
        stream.truncate(300 * MIB)
        stream.seek(0, os.SEEK_END)
        stream.write(b"\n" + SERVER_MEMORY.encode())


def large_lines(path):
    """The records of server-memory, then 48 lines of 4 MiB that are no records."""
    line = {"type": "entity", "entityType": "x", "observations": [], "metadata": "y" * (4 * MIB)}
    with path.open("w") as stream:
        stream.write(SERVER_MEMORY + "\n")
        stream.writelines(json.dumps({"name": f"n{n}", **line}) + "\n" for n in range(24))
        relation = {"type": "relation", "from": "Ada", "to": "Ada", "relationType": "x"}
        relation["metadata"] = {"note": "y" * (4 * MIB)}
        stream.writelines(json.dumps(relation) + "\n" for n in range(24))


@pytest.mark.parametrize(
    ("write", "message"),
    [
        (sparse_line, LONG_LINE),
        (large_lines, "line 4 has metadata of more than 1,048,576 characters; left out"),
    ],
)
def test_an_import_holds_no_large_file_in_memory(graph, service, tmp_path, write, message):
    path, peak = tmp_path / "memory.jsonl", tmp_path / "peak"
    write(path)
    program = MEASURED.replace("PEAK", repr(str(peak)))
    arguments = ["knowledge", "graph", "import", "--from", str(path), "-n", "large"]
    process = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        env={**get_default_environment(), "KAIS_KNOWLEDGE_URL": service},
        text=True, capture_output=True, check=False, timeout=300,
    )  # fmt: skip
    assert message in process.stderr
    assert "2 entities, 2 observations, 1 relation created; " in process.stderr
    assert process.returncode == 1
    assert int(peak.read_text()) < MAX_PEAK_KIB


async def test_a_large_memory_path_is_not_held_in_memory(graph, service, tmp_path):
    path, peak = tmp_path / "memory.jsonl", tmp_path / "peak"
    sparse_line(path)
    program = StdioServerParameters(
        command=sys.executable,
        args=[
            *("-c", MEASURED.replace("PEAK", repr(str(peak)))),
            *("mcp", "-n", "largepath", "--memory-path", str(path)),
        ],
        env={**get_default_environment(), "KAIS_KNOWLEDGE_URL": service},
    )
    with (tmp_path / "stderr").open("w+") as stderr:
        async with Client(stdio_client(program, errlog=stderr)) as client:
            result = await client.call_tool("read_graph", {})
        stderr.seek(0)
        said = stderr.read()
    names = [each["name"] for each in result.structured_content["entities"]]
    assert sorted(names) == ["Ada", "Harbour"]
    assert LONG_LINE in said
    assert "was put aside as memory-aside-" in said
    assert int(peak.read_text()) < MAX_PEAK_KIB


def test_an_entity_larger_than_a_request_is_imported_in_parts(graph, tmp_path):
    texts = [f"{n} {'é' * 8000}" for n in range(120)]
    line = {"type": "entity", "name": "Log", "entityType": "x", "observations": texts}
    path = tmp_path / "memory.jsonl"
    path.write_text(json.dumps(line, ensure_ascii=False) + "\n")
    graph("import", "--from", str(path))
    assert records(graph("export", "--to", "-")) == [line]


def test_two_imports_at_once_lose_nothing(shell, service, tmp_path):
    from kais_cli.graph.importer import GraphImport  # noqa: PLC0415

    lines = [
        json.dumps({"type": "entity", "name": f"twin {n}", "entityType": "x",
                    "observations": ["one", f"two {n}"]})
        for n in range(120)
    ]  # fmt: skip
    path = tmp_path / "memory.jsonl"
    path.write_text("\n".join(lines))
    imports = []

    def work():
        with KnowledgeClient(url=service) as client, path.open("rb") as stream:
            imports.append(GraphImport(client, "FILE", lambda text: None, shell.realm))
            imports[-1].run(stream)

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(each.damaged for each in imports) == 0
    written = records(shell("graph", "export", "--to", "-", "--scope", shell.realm))
    assert len(written) == 120
    assert {len(each["observations"]) for each in written} == {2}


def test_a_file_that_changes_while_it_is_read_is_reported(service, tmp_path):
    from kais_cli.graph.importer import GraphImport  # noqa: PLC0415

    path = tmp_path / "memory.jsonl"
    path.write_text('{"type":"session"}\n')
    said = []

    def report(text):
        said.append(text)
        with path.open("a") as stream:
            stream.write("# changed\n")

    with KnowledgeClient(url=service) as client, path.open("rb") as stream:
        GraphImport(client, "FILE", report).run(stream)
    assert said[-1] == "FILE changed while it was read; import it again"


def test_an_export_overwrites_nothing(graph, tmp_path):
    path = tmp_path / "memory.jsonl"
    path.write_text("mine")
    graph("export", "--to", str(path), status=2)
    assert path.read_text() == "mine"


def test_a_memory_path_has_no_links_and_no_dots(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    (tmp_path / "real" / "file.jsonl").symlink_to("elsewhere")
    assert check_path(Path("memory.jsonl")) == tmp_path / "memory.jsonl"
    for bad, reason in [
        ("real/../memory.jsonl", "may not contain .."),
        ("link/memory.jsonl", "link is a symbolic link"),
        ("real/file.jsonl", "is a symbolic link"),
        ("real", "is not a file"),
        ("nothing/memory.jsonl", "is not a directory"),
    ]:
        with pytest.raises(errors.UsageError, match=reason):
            check_path(Path(bad))


class Clock:
    def __init__(self):
        self.at = datetime(2026, 3, 1, tzinfo=UTC)

    def __call__(self):
        self.at += timedelta(seconds=1)
        return self.at


@pytest.fixture
def mirror(tmp_path):
    said = []
    made = Mirror(tmp_path / "memory.jsonl", said.append, Clock())
    made.said = said
    return made


def test_additions_are_appended_and_the_rest_is_written_anew(mirror):
    assert mirror.append(["a\n"]) is False
    mirror.rewrite(["a\n", "b"])
    before = mirror.path.stat().st_ino
    assert mirror.append(["c\n"]) is True
    assert (mirror.path.read_text(), mirror.path.stat().st_ino) == ("a\nb\nc\n", before)
    mirror.rewrite(["c\n"])
    assert mirror.path.read_text() == "c\n"
    assert mirror.path.stat().st_ino != before


def test_a_file_that_others_changed_is_put_aside(mirror):
    mirror.rewrite(["a\n"])
    mirror.path.write_text("mine\n")
    assert mirror.append(["b\n"]) is False
    mirror.rewrite(["a\n", "b\n"])
    (aside,) = mirror.path.parent.glob("memory-aside-*.jsonl")
    assert (aside.read_text(), mirror.path.read_text()) == ("mine\n", "a\nb\n")
    assert mirror.said == [
        f"{mirror.path} was put aside as {aside.name}: it was changed by another program"
    ]


def test_two_programs_share_a_mirror(mirror):
    second = Mirror(mirror.path, mirror.report, mirror.now)
    mirror.rewrite(["a\n"])
    assert second.append(["b\n"])
    assert mirror.append(["c\n"])
    assert mirror.path.read_text() == "a\nb\nc\n"
    assert mirror.said == []


def test_lines_are_not_appended_after_the_save_of_another_program(mirror):
    second = Mirror(mirror.path, mirror.report, mirror.now)
    mirror.rewrite(["a\n"])
    before = mirror.last_save()
    assert second.append(["b\n"], after=second.last_save())
    assert mirror.append(["c\n"], after=before) is False
    assert mirror.append(["c\n"], after=mirror.last_save())
    assert mirror.path.read_text() == "a\nb\nc\n"


def test_lines_are_not_appended_after_the_import_of_another_program(mirror):
    mirror.rewrite(["a\n"])
    before = mirror.last_save()
    mirror.path.write_text("mine\n")
    with mirror.open() as stream:
        mirror.adopt(identify(stream), is_damaged=False)
    assert mirror.append(["b\n"], after=before) is False


def test_a_file_that_is_replaced_while_it_is_read_is_put_aside(mirror):
    mirror.path.write_text("read\n")
    with mirror.open() as stream:
        identity = identify(stream)
        changed = mirror.path.with_name("changed")
        changed.write_text("mine\n")
        changed.replace(mirror.path)
        mirror.adopt(identity, is_damaged=False)
    assert mirror.append(["a\n"]) is False
    mirror.rewrite(["a\n"])
    (aside,) = mirror.path.parent.glob("memory-aside-*.jsonl")
    assert (aside.read_text(), mirror.path.read_text()) == ("mine\n", "a\n")


@pytest.mark.parametrize("mode", [None, 0o600, 0o640])
def test_new_files_have_the_mode_of_the_memory_file(mirror, mode):
    if mode is not None:
        mirror.path.write_text("")
        mirror.path.chmod(mode)
    for _ in range(100):
        mirror.rewrite([])
    files = [mirror.path, *list_copies(mirror.path)]
    assert [oct(file.stat().st_mode & 0o777) for file in files] == [oct(mode or 0o600)] * 2


def test_nothing_is_written_through_a_link(mirror):
    other = mirror.path.with_name("other")
    other.write_text("mine")
    mirror.path.with_name(".memory.jsonl.new").symlink_to(other)
    mirror.path.with_name(".memory-backup-2026-03-01T00-00-01-000000.jsonl.new").symlink_to(other)
    for _ in range(100):
        mirror.rewrite(["a\n"])
    assert other.read_text() == "mine"
    assert [file.is_symlink() for file in (mirror.path, *list_copies(mirror.path))] == [False] * 2


def test_a_failed_save_leaves_the_file_and_no_draft(mirror):
    mirror.rewrite(["a\n"])

    def lines():
        yield "b\n"
        raise OSError("no space")

    with pytest.raises(errors.UsageError, match=r"cannot write \S+/memory.jsonl .*: no space"):
        mirror.rewrite(lines())
    assert mirror.path.read_text() == "a\n"
    assert not mirror.path.with_name(".memory.jsonl.new").exists()


@pytest.mark.parametrize(
    "command", [("knowledge", "graph", "mirror", "--to"), ("mcp", "--memory-path")]
)
def test_a_folder_in_which_nothing_can_be_written_is_a_usage_error(shell, tmp_path, command):
    (tmp_path / ".memory.jsonl.saves").mkdir()  # a folder without rights would not stop root
    path = tmp_path / "memory.jsonl"
    assert shell.terminal.run(*command, str(path), "-n", "harbour") == ExitStatus.USAGE
    assert shell.terminal.err == (
        f"error: cannot write {path} or a file beside it: Is a directory; check the folder, or name"
        " another file\n"
    )


def test_a_file_of_one_scope_never_gets_another(mirror):
    mirror.rewrite(["a\n"])
    other = Mirror(mirror.path, mirror.report, mirror.now, "realm:harbour")
    with pytest.raises(errors.UsageError, match="follows all visible scopes, not realm:harbour"):
        other.rewrite(["b\n"])
    assert mirror.path.read_text() == "a\n"
    mirror.path.unlink()
    other.rewrite(["b\n"])
    assert other.path.read_text() == "b\n"


def test_every_hundredth_save_leaves_a_copy_and_ten_are_kept(mirror):
    for number in range(10):
        (mirror.path.parent / f"memory-backup-2026-02-0{number}.jsonl").write_text("")
    mirror.rewrite([])
    for number in range(2, 101):
        mirror.append([f"{number}\n"])
    copies = list_copies(mirror.path)
    assert len(copies) == 10
    assert copies[0].name == "memory-backup-2026-02-01.jsonl"
    assert copies[-1].name == "memory-backup-2026-03-01T00-00-01-000000.jsonl"
    assert copies[-1].read_text().endswith("\n99\n100\n")


@pytest.mark.parametrize(
    "other", ["b.jsonl", "a-b.jsonl", "a.json", "a", "a-backup-2026.jsonl", "memory.jsonl"]
)
def test_files_in_one_folder_keep_their_own_copies(tmp_path, other):
    clock = Clock()
    mirrors = [Mirror(tmp_path / name, print, clock) for name in ("a.jsonl", other)]
    for mirror in mirrors:
        mirror.rewrite([f"{mirror.path.name}\n"])
    for saves, mirror in zip((99, 1099), mirrors, strict=True):
        for _ in range(saves):
            mirror.append([])
    copies = [list_copies(mirror.path) for mirror in mirrors]
    assert [len(own) for own in copies] == [1, 10]
    for mirror, own in zip(mirrors, copies, strict=True):
        assert {copy.read_text() for copy in own} == {f"{mirror.path.name}\n"}


def test_a_name_with_the_signs_of_a_pattern_finds_its_own_copies(tmp_path):
    for name in ("a[bc]*", "ab", "ac"):
        (tmp_path / f"{name}-backup-2026-03-01T00-00-01-000000.jsonl").write_text("")
    (copy,) = list_copies(tmp_path / "a[bc]*.jsonl")
    assert copy.name == "a[bc]*-backup-2026-03-01T00-00-01-000000.jsonl"


def test_a_file_near_its_limit_is_reported_once(mirror):
    mirror.rewrite([])
    with mirror.path.open("r+b") as stream:
        stream.truncate(950_000_000)
    with mirror.open() as stream:
        mirror.adopt(identify(stream), is_damaged=False)
    mirror.append(["a\n"])
    mirror.append(["b\n"])
    (warning,) = mirror.said
    assert "has 950 of at most 1,000 MB" in warning
    assert warning.endswith("with `kais knowledge charts archive --to FILE`")


def test_a_copy_is_restored(graph, tmp_path):
    path = tmp_path / "memory.jsonl"
    graph("restore", "--memory-path", str(path), status=2)
    assert "one is made after every 100 saves" in graph.terminal.err
    copy = tmp_path / "memory-backup-2026-03-01T00-00-01-000000.jsonl"
    copy.write_text(SERVER_MEMORY)
    graph("restore", "--memory-path", str(path))
    assert graph.terminal.err.splitlines() == [
        f"restoring {copy.name}", "2 entities, 2 observations, 1 relation created",
    ]  # fmt: skip
    graph("mirror", "--to", str(path))
    assert records(path.read_text()) == records(SERVER_MEMORY)


def test_restore_takes_no_copy_of_another_file_in_the_folder(graph, tmp_path):
    path = tmp_path / "a.jsonl"
    own = tmp_path / "a-backup-2026-03-01T00-00-01-000000.jsonl"
    own.write_text(SERVER_MEMORY)
    for other in ("b", "memory"):
        name = f"{other}-backup-2026-03-02T00-00-01-000000.jsonl"
        (tmp_path / name).write_text(SERVER_MEMORY.replace("Ada", "Eve"))
    graph("restore", "--memory-path", str(path))
    assert graph.terminal.err.splitlines()[0] == f"restoring {own.name}"
    graph("restore", "--memory-path", str(path), "--copy", name, status=2)
    assert f"no copy {name} beside {path}; there are {own.name}" in graph.terminal.err


def test_commands_of_the_page_work_as_they_stand(graph, service, tmp_path):
    page = documents.ROOT / "docs/how-to/keep-a-graph.md"
    script = "".join(block.text for block in documents.blocks(page) if block.language == "sh")
    environment = {
        **os.environ,  # noqa: TID251 - a shell of its own
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",  # noqa: TID251 - as above
        "KAIS_KNOWLEDGE_URL": service,
        "NO_COLOR": "1",
    }
    process = subprocess.run(
        ["bash", "-c", f"set -eu; {script}"],
        cwd=tmp_path, env=environment, text=True, capture_output=True, check=False, timeout=120,
    )  # fmt: skip
    assert process.returncode == 0, process.stderr
    of_ada, of_chart = process.stdout.split("RANK")[1:]
    assert "Ada speaks French." in of_ada.splitlines()[1]
    assert "I own no guitar." in of_chart


def test_commands_of_the_page_name_the_namespace_and_so_find_in_a_cluster_what_they_wrote():
    page = documents.ROOT / "docs/how-to/keep-a-graph.md"
    script = "".join(block.text for block in documents.blocks(page) if block.language == "sh")
    commands = [line for line in script.splitlines() if "kais knowledge " in line]
    assert commands
    assert [line for line in commands if " -n harbour" not in line] == []


@contextlib.asynccontextmanager
async def drop_in(url, path):
    program = StdioServerParameters(
        command=str(Path(sys.executable).parent / "kais"),
        args=["mcp", "-n", "dropin", "--memory-path", str(path)],
        env={**get_default_environment(), "KAIS_KNOWLEDGE_URL": url},
    )
    async with Client(program) as client:
        yield client


async def test_a_client_of_server_memory_changes_only_its_command(service, tmp_path):
    path = tmp_path / "memory.jsonl"
    path.write_text(SERVER_MEMORY)
    async with drop_in(service, path) as client:
        tools = [tool.name for tool in (await client.list_tools()).tools]
        assert tools == [
            "create_entities", "create_relations", "add_observations", "delete_entities",
            "delete_observations", "delete_relations", "read_graph", "search_nodes", "open_nodes",
        ]  # fmt: skip

        async def call(tool, **arguments):
            result = await client.call_tool(tool, arguments)
            assert not result.is_error, result.content
            return result.structured_content

        read = await call("read_graph")
        assert sorted(each["name"] for each in read["entities"]) == ["Ada", "Harbour"]
        await call(
            "create_entities",
            entities=[{"name": "Crane", "entityType": "thing", "observations": ["Lifts 40 t"]}],
        )
        await call(
            "create_relations",
            relations=[{"from": "Ada", "to": "Crane", "relationType": "drives"}],
        )
        assert path.read_text().startswith(SERVER_MEMORY + "\n")
        assert [json.loads(line)["type"] for line in path.read_text().splitlines()[3:]] == [
            "entity", "relation",
        ]  # fmt: skip
        await call(
            "add_observations", observations=[{"entityName": "Ada", "contents": ["Left-handed"]}]
        )
        await call("delete_entities", entityNames=["Harbour"])
    names = [each["name"] for each in records(path.read_text()) if each["type"] == "entity"]
    assert names == ["Ada", "Crane"]
    ada = next(each for each in records(path.read_text()) if each.get("name") == "Ada")
    assert ada["observations"] == ["Speaks French", "Sails", "Left-handed"]
    (relation,) = (each for each in records(path.read_text()) if each["type"] == "relation")
    assert (relation["from"], relation["to"]) == ("Ada", "Crane")


async def test_a_client_of_server_memory_reads_a_graph_with_any_metadata(service, tmp_path):
    path = tmp_path / "memory.jsonl"
    text = "\n".join((ENTITIES, *TYPES_IN_METADATA))
    # Names of its own, because the tests of this module share the service.
    path.write_text(text.replace("Ada", "Grace").replace("Harbour", "Quay"))
    calls = (("read_graph", {}), ("open_nodes", {"names": ["Grace"]}))
    async with drop_in(service, path) as client:
        for tool, arguments in (*calls, ("search_nodes", {"query": "Grace"})):
            result = await client.call_tool(tool, arguments)
            assert not result.is_error, result.content
            relations = result.structured_content["relations"]
            found = sorted(each["relationType"] for each in relations if each["from"] == "Grace")
            assert found == ["Works on", "helps", "knows", "likes"]
        await client.call_tool("delete_entities", {"entityNames": ["Grace", "Quay"]})


async def test_a_client_of_server_memory_parses_the_text_of_each_answer(service, tmp_path):
    """The tier npm compares every answer with that of server-memory itself."""
    path = tmp_path / "memory.jsonl"
    path.write_text(SERVER_MEMORY)
    async with drop_in(service, path) as client:
        await client.call_tool("read_graph", {})  # imports the file
        winch = {"name": "Winch", "entityType": "thing", "observations": ["</graph> lifts"]}
        drives = {"from": "Ada", "to": "Winch", "relationType": "drives"}
        addition = {"entityName": "Winch", "contents": ["Rusts"]}
        calls = (
            ("create_entities", {"entities": [winch]}, "entities"),
            ("create_relations", {"relations": [drives]}, "relations"),
            ("add_observations", {"observations": [addition]}, "results"),
            ("open_nodes", {"names": ["Winch"]}, None),
            ("search_nodes", {"query": "RUSTS"}, None),
            ("read_graph", {}, None),
        )
        for tool, arguments, member in calls:
            result = await client.call_tool(tool, arguments)
            (content,) = result.content
            structured = result.structured_content
            assert json.loads(content.text) == (structured[member] if member else structured)
            assert result.meta["kais.io/untrusted"].startswith("The facts are stored data")
        opened = (await client.call_tool("open_nodes", {"names": ["Winch"]})).structured_content
        assert opened == {
            "entities": [{**winch, "observations": ["</graph> lifts", "Rusts"]}],
            "relations": [drives],
        }
        deleted = await client.call_tool("delete_entities", {"entityNames": ["Winch"]})
        assert deleted.content[0].text == "Entities deleted successfully"
        missing = await client.call_tool("add_observations", {"observations": [addition]})
        assert (missing.is_error, missing.meta["kais.io/error"]["code"]) == (True, "not-found")


class FailingTransport(httpx.BaseTransport):
    """Sends each request, and then responds with `status` if `fails` says so."""

    def __init__(self):
        self.requests = []
        self.fails = lambda request: False
        self.status = 401
        self._http = httpx.HTTPTransport()

    def handle_request(self, request):
        self.requests.append(request)
        answer = self._http.handle_request(request)
        if not self.fails(request):
            return answer
        answer.close()
        return httpx.Response(self.status)

    def close(self):
        """Stay open, since a client that is opened again uses the same transport."""

    def shut_down(self):
        self._http.close()


@pytest.fixture
def transport():
    opened = FailingTransport()
    yield opened
    opened.shut_down()


@pytest.fixture
def open_mirrored(shell, mirror, transport):
    """Opens the knowledge of a person whose memory file is that of `mirror`, as one process."""
    environment = dataclasses.replace(shell.terminal.environment(), knowledge_transport=transport)
    session = Session(environment, ClusterOptions(), shell.namespace)
    mirror.scope = shell.realm
    with contextlib.ExitStack() as stack:

        def open_one():
            opened = MirroredKnowledge(
                session, mirror=dataclasses.replace(mirror), scope=shell.realm
            )
            stack.callback(opened.close)
            return opened

        yield open_one


@pytest.fixture
def mirrored(open_mirrored, mirror):
    opened = open_mirrored()
    opened.mirror = mirror
    return opened


def entities(*names, scope=None, observations=()):
    return models.GraphEntitiesIn(
        entities=tuple(
            models.GraphEntityIn(name=name, entity_type="x", observations=observations)
            for name in names
        ),
        scope=scope,
    )


def observation(entity, text):
    item = models.EntityObservationsIn(entity=entity, contents=(text,))
    return models.GraphObservationsIn(observations=(item,))


def relation(source, target):
    item = models.GraphRelationIn(from_=source, to=target, relation_type="nears")
    return models.GraphRelationsIn(relations=(item,))


def names_of(path):
    return [each.get("name") or each["relationType"] for each in records(path.read_text())]


@contextlib.asynccontextmanager
async def held(transport, call, path):
    """Hold the answer to the first request of `call` to a path, which the service has served."""
    served, released = threading.Event(), threading.Event()

    def hold(request):
        if request.method == "POST" and request.url.path == path and not served.is_set():
            served.set()
            released.wait(60)
        return False

    transport.fails = hold
    task = asyncio.create_task(call)
    try:
        assert await asyncio.to_thread(served.wait, 60)
        yield task
    finally:
        released.set()
        await task


CREATE_ENTITIES, CREATE_RELATIONS = "/v1/graph/entities", "/v1/graph/relations"
SLOW_CREATIONS = [
    (CREATE_ENTITIES, lambda knowledge: knowledge.create_entities(entities("slow"))),
    (CREATE_RELATIONS, lambda knowledge: knowledge.create_relations(relation("first", "second"))),
]
CHANGES = [
    lambda knowledge: knowledge.add_observations(observation("first", "tall")),
    lambda knowledge: knowledge.delete_entities(models.GraphNamesIn(names=("slow", "second"))),
    lambda knowledge: knowledge.delete_relations(relation("first", "second")),
]


@pytest.mark.parametrize("change", CHANGES, ids=["observe", "delete", "unrelate"])
@pytest.mark.parametrize("creation", SLOW_CREATIONS, ids=["entity", "relation"])
@pytest.mark.parametrize("processes", [1, 2])
async def test_the_file_has_the_graph_after_changes_at_once(
    graph, open_mirrored, transport, processes, creation, change
):
    path, create = creation
    slow = open_mirrored()
    other = slow if processes == 1 else open_mirrored()
    await slow.create_entities(entities("first", "second"))
    await other.read_graph()
    async with held(transport, create(slow), path):
        second = asyncio.create_task(change(other))
        # Two processes do not wait for each other; in one, the change waits for the creation.
        await asyncio.wait({second}, timeout=60 if processes == 2 else 0.5)
    await second
    exported = graph("export", "--to", "-", "--scope", slow.scope)
    assert records(slow.mirror.path.read_text()) == records(exported)


async def test_a_read_does_not_wait_for_a_change(mirrored, transport):
    await mirrored.create_entities(entities("buoy"))
    async with held(transport, mirrored.create_entities(entities("beacon")), CREATE_ENTITIES):
        graph = await asyncio.wait_for(mirrored.read_graph(contains="buoy"), 60)
    assert [entity.name for entity in graph.entities] == ["buoy"]


@pytest.mark.parametrize("creation", SLOW_CREATIONS, ids=["entity", "relation"])
async def test_a_change_of_a_cancelled_call_is_in_the_file(
    graph, mirrored, mirror, transport, creation
):
    path, create = creation
    await mirrored.create_entities(entities("first", "second"))
    cancelled = anyio.CancelScope()

    async def call():
        with cancelled:
            await create(mirrored)

    async with held(transport, call(), path):
        cancelled.cancel()
    exported = graph("export", "--to", "-", "--scope", mirrored.scope)
    assert records(mirror.path.read_text()) == records(exported)


async def test_a_change_whose_response_is_lost_is_in_the_file_after_the_next_one(
    graph, mirrored, mirror, transport
):
    await mirrored.create_entities(entities("first"))
    transport.fails, transport.status = lambda request: request.url.path == CREATE_ENTITIES, 502
    with pytest.raises(knowledge_errors.KnowledgeUnavailable):
        await mirrored.create_entities(entities("second"))
    transport.fails = lambda request: False
    await mirrored.create_entities(entities("third"))
    exported = graph("export", "--to", "-", "--scope", mirrored.scope)
    assert records(mirror.path.read_text()) == records(exported)


async def test_a_creation_succeeds_without_the_folder_of_the_file(mirrored, mirror):
    await mirrored.create_entities(entities("mast"))
    shutil.rmtree(mirror.path.parent)
    created = await mirrored.create_entities(entities("float"))
    assert [entity.name for entity in created.entities] == ["float"]
    (said,) = mirror.said
    assert said.startswith(f"{mirror.path} does not have the last change: ")
    mirror.path.parent.mkdir()
    await mirrored.create_entities(entities("keel"))
    assert sorted(names_of(mirror.path)) == ["float", "keel", "mast"]


async def test_a_memory_file_never_has_the_graph_of_another_realm(mirrored, service):
    with KnowledgeClient(url=service) as client:
        client.create_entities(entities("secret pier", scope="realm:elsewhere"))
    path = mirrored.mirror.path
    await mirrored.create_entities(entities("own pier"))
    await mirrored.create_entities(entities("far pier", scope="realm:elsewhere"))
    relations = models.GraphRelationsIn(
        relations=(
            models.GraphRelationIn(from_="own pier", to="secret pier", relation_type="nears"),
            models.GraphRelationIn(from_="secret pier", to="own pier", relation_type="hides"),
        )
    )
    await mirrored.create_relations(relations)
    assert sorted(names_of(path)) == ["nears", "own pier"]
    await mirrored.add_observations(observation("own pier", "long"))
    assert sorted(names_of(path)) == ["nears", "own pier"]


@pytest.mark.parametrize("namespace", [None, "harbour"])
def test_a_memory_file_follows_one_realm(shell, tmp_path, namespace):
    session = Session(shell.terminal.environment(), ClusterOptions(), namespace)
    path = tmp_path / "memory.jsonl"
    if namespace is None:
        with pytest.raises(errors.UsageError, match="choose it with --namespace"):
            serving.open_backend(session, path)
    else:
        assert serving.open_backend(session, path).scope == "realm:harbour"


async def test_a_change_during_the_import_is_put_aside(mirrored, mirror):
    mirror.path.write_text('{"type":"entity","name":"quay","entityType":"x","observations":[]}\n')

    def report(text):
        mirror.said.append(text)
        if "created" in text:
            mirror.path.write_text("mine\n")

    mirror.report = report
    await mirrored.create_entities(entities("bollard"))
    (aside,) = mirror.path.parent.glob("memory-aside-*.jsonl")
    assert aside.read_text() == "mine\n"
    assert sorted(names_of(mirror.path)) == ["bollard", "quay"]


async def test_a_change_that_is_saved_succeeds_without_the_file(mirrored, mirror, transport):
    await mirrored.create_entities(entities("winch"))
    transport.fails, transport.status = lambda request: request.method == "GET", 403
    added = await mirrored.add_observations(observation("winch", "rusty"))
    assert added.observations[0].contents == ("rusty",)
    (said,) = mirror.said
    assert said.startswith(f"{mirror.path} does not have the last change: ")
    assert "rusty" not in mirror.path.read_text()
    transport.fails = lambda request: False
    await mirrored.create_entities(entities("chain"))
    assert "rusty" in mirror.path.read_text()


async def test_a_save_opens_the_connection_again(mirrored, mirror, transport):
    await mirrored.create_entities(entities("crane hook"))
    reads = []
    transport.fails = lambda request: (
        request.method == "GET" and not reads and not reads.append(request)
    )
    await mirrored.add_observations(observation("crane hook", "bent"))
    assert len(reads) == 1
    assert mirror.said == []
    assert "bent" in mirror.path.read_text()


async def test_a_repeated_call_creates_nothing_twice(mirrored, mirror, transport):
    await mirrored.read_graph()
    failed = []
    transport.fails = lambda request: (
        request.method == "POST" and not failed and not failed.append(request)
    )
    created = await mirrored.create_entities(entities("ferry", observations=("slow",)))
    assert [entity.name for entity in created.entities] == ["ferry"]
    keys = [each.headers["Idempotency-Key"] for each in transport.requests if each.method == "POST"]
    assert len(keys) == 2
    assert keys[0] == keys[1]
    assert names_of(mirror.path) == ["ferry"]


async def test_a_repeated_call_changes_a_chart_once(mirrored, transport):
    failed = []
    transport.fails = lambda request: (
        request.method == "POST"
        and request.url.path not in failed
        and not failed.append(request.url.path)
    )
    chart = await mirrored.create_chart(
        models.ChartIn(
            desired_outcome="Five songs",
            current_reality="None",
            due_date=datetime(2030, 5, 1, tzinfo=UTC),
            action_steps=(models.ActionStepIn(title="Buy a guitar"),),
        )
    )
    first = chart.action_steps[0].name
    chart = await mirrored.add_step(chart.id, models.ActionStepIn(title="Find a teacher"))
    second = chart.action_steps[1].name
    await mirrored.record_progress(models.StepProgressIn(step=first, observation="Saw one"))
    await mirrored.telescope_step(models.TelescopeIn(step=second, current_reality="I know none"))
    await mirrored.complete_step(models.StepIn(step=first))
    await mirrored.change_chart(chart.id, models.ChartChanges(current_reality=("It sounds",)))
    chart = await mirrored.remove_step(chart.id, models.StepIn(step=second))
    assert [step.name for step in chart.action_steps] == [first]
    assert chart.current_reality == ("None", "Completed: Buy a guitar", "It sounds")
    assert [each.id for each in (await mirrored.list_charts()).charts] == [chart.id]
    assert chart.action_steps[0].progress == ("Saw one",)
    sent = Counter(
        (request.url.path, request.headers["Idempotency-Key"])
        for request in transport.requests
        if request.method == "POST"
    )
    assert len(sent) == 7
    assert set(sent.values()) == {2}
