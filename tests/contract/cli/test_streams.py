"""`kais` as a process whose output goes somewhere that does not take it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from kais_cli.exit_status import ExitStatus
from tests.knowledge_process import serving

CALL = [sys.executable, "-c", "import sys; from kais_cli.app import main; sys.exit(main())"]


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("db") / "knowledge.db") as (_, url):
        for text in ("港は六時に開きます。", "The café sails at 🚢."):
            kais(url, "add", text)
        yield url


def environment(url):
    return {**os.environ, "KAIS_KNOWLEDGE_URL": url}  # noqa: TID251 - a process of its own


def kais(url, *arguments, **options):
    env = environment(url) | options.pop("env", {})
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | options
    return subprocess.run(
        [*CALL, "knowledge", *arguments], check=False, timeout=60, env=env, **options
    )


@pytest.mark.parametrize("form", ["table", "json"])
def test_reader_that_goes_away_ends_the_command_without_words(service, form):
    reading, writing = os.pipe()
    os.close(reading)
    try:
        result = kais(service, "list", "-o", form, stdout=writing)
    finally:
        os.close(writing)
    assert (result.returncode, result.stderr) == (ExitStatus.READER_GONE, b"")


def test_disk_that_is_full_is_said(service):
    with Path("/dev/full").open("w") as full:
        result = kais(service, "list", stdout=full)
    assert result.returncode == ExitStatus.FAILED
    assert result.stderr == b"error: cannot write the output (No space left on device)\n"


def test_closed_streams_are_no_streams(service):
    shell = subprocess.run(
        ["sh", "-c", '"$@" >&- 2>&-; echo $?', "sh", *CALL, "knowledge", "list"],
        capture_output=True, check=False, timeout=60,
        env=environment(service),
    )  # fmt: skip
    assert (shell.stdout, shell.stderr) == (b"0\n", b"")


def test_terminal_of_another_encoding_gets_escapes_and_programs_get_their_json(service):
    narrow = {"PYTHONIOENCODING": "ascii"}
    table = kais(service, "list", env=narrow)
    assert (table.returncode, table.stderr) == (0, b"")
    assert rb"caf\u00e9 sails at \ud83d\udea2." in table.stdout
    document = json.loads(kais(service, "list", "-o", "json", env=narrow).stdout)
    assert {fact["content"] for fact in document} == {
        "港は六時に開きます。",
        "The café sails at 🚢.",
    }


def test_bytes_that_are_no_text_are_refused_with_what_to_do(service):
    result = kais(service, "add", b"caf\xe9")
    assert result.returncode == ExitStatus.USAGE
    assert result.stderr == (
        b"error: content: is not UTF-8; check the encoding of your shell (LC_ALL)\n"
    )
