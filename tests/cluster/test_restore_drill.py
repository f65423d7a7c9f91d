"""The restore drill of docs/how-to/back-up-and-restore.md: a replica beside a busy service."""

from __future__ import annotations

import itertools
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.support import documents, shell_commands
from kais_cluster import settings
from kais_cluster.errors import CommandFailed
from kais_cluster.host import component_builds
from knowledge_client import KnowledgeClient
from knowledge_client.models import FactIn, ReasonIn
from tests.cluster.test_namespaced_rights import rendered
from tests.knowledge_process import errand, serving
from tests.s3_server import running as s3_server

pytestmark = pytest.mark.cluster

_CONFIGURATION = """
dbs:
  - path: {db}
    replica:
      type: file
      path: {replica}
      sync-interval: 1s
"""


@pytest.fixture(scope="module")
def litestream() -> Path:
    """Our own litestream, built from its pinned module."""
    component_builds.build(component_builds.by_name(["litestream"]), settings.binaries_dir())
    return settings.binaries_dir() / "litestream"


PAGE = documents.ROOT / "docs/how-to/back-up-and-restore.md"
Body = dict[str, Any]


def backup_container(helm: Path, *values: str) -> Body:
    """The container of the chart's CronJob with a schedule and these values."""
    schedule = "knowledge.backup.schedule=17 2 * * *"
    bodies = rendered(helm, schedule, *values, namespace="kais-system")
    (job,) = (body for body in bodies if body["kind"] == "CronJob")
    container: Body = job["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"][0]
    return container


def placed(arguments: list[str], places: dict[str, Path]) -> list[str]:
    """Give arguments with the folders of a test in place of the mounted ones."""
    return [
        next((arg.replace(at, str(to)) for at, to in places.items() if at in arg), arg)
        for arg in arguments
    ]


def test_backup_of_the_chart_beside_a_service_is_restored(helm: Path, tmp_path: Path) -> None:
    container = backup_container(helm, "knowledge.backup.claim=copies", "knowledge.backup.keep=2")
    places = {"/data": tmp_path, "/backup": tmp_path / "backup"}
    assert {mount["mountPath"] for mount in container["volumeMounts"]} > set(places)
    places["/backup"].mkdir()
    arguments = placed(container["args"], places)
    db = tmp_path / "knowledge.db"
    with serving(db) as (_, url), KnowledgeClient(url) as client:
        fact = client.remember(FactIn(content="the ship came in")).fact_id
        completed = errand(*arguments)
        assert completed.returncode == 0, completed.stderr.decode()
        client.retract(fact, ReasonIn(reason="after the copy"))
    (copy,) = places["/backup"].iterdir()
    put_back = errand("restore", "--db", db, "--from", copy)
    assert put_back.returncode == 0, put_back.stderr.decode()
    with serving(db) as (_, url), KnowledgeClient(url) as client:
        assert client.get_fact(fact).lifecycle == "live"


def values_of_the_page() -> list[str]:
    """The page's values of a backup to a bucket, as arguments of Helm."""
    (values,) = (
        yaml.safe_load(block.text)["knowledge"]["backup"]
        for block in documents.blocks(PAGE)
        if block.language == "yaml" and "bucket: s3://" in block.text and "backup:" in block.text
    )
    return [f"knowledge.backup.{name}={value}" for name, value in values.items()]


def commands_of_the_page() -> list[list[str]]:
    blocks = (block for block in documents.blocks(PAGE) if block.is_commands)
    return [command for block in blocks for command in shell_commands.commands(block.text)]


def restore_command_of_the_page() -> list[str]:
    """What the page's `kubectl exec` starts to restore from a bucket."""
    (command,) = (
        c for c in commands_of_the_page() if c[:2] == ["kubectl", "exec"] and "s3://" in c[-1]
    )
    return command[command.index("kais-knowledge") + 1 :]


def secret_keys_of_the_page() -> set[str]:
    (command,) = (c for c in commands_of_the_page() if "knowledge-copies" in c)
    return {arg.split("=")[1] for arg in command if arg.startswith("--from-literal=")}


def test_backup_of_the_page_goes_to_a_bucket_and_is_restored_from_there(
    helm: Path, tmp_path: Path
) -> None:
    container = backup_container(helm, *values_of_the_page())
    assert container["envFrom"] == [{"secretRef": {"name": "knowledge-copies"}}]
    (work,) = container["env"]
    assert work == {"name": "TMPDIR", "value": "/backup"}
    places = {"/data": tmp_path, "/backup": tmp_path / "backup"}
    places["/backup"].mkdir()
    db = tmp_path / "knowledge.db"
    with s3_server.running() as bucket:
        variables = bucket.variables()
        assert secret_keys_of_the_page() == set(variables) - {"AWS_ALLOW_HTTP"}
        with serving(db) as (_, url), KnowledgeClient(url) as client:
            fact = client.remember(FactIn(content="the ship came in")).fact_id
            arguments = placed(container["args"], places)
            environment = {**variables, "TMPDIR": str(places["/backup"])}
            completed = errand(*arguments, environment=environment)
            assert completed.returncode == 0, completed.stderr.decode()
            assert b"s3://copies/kais/knowledge-" in completed.stderr
            client.retract(fact, ReasonIn(reason="after the copy"))
        assert list(places["/backup"].iterdir()) == []
        for lost in tmp_path.glob("knowledge.db*"):
            lost.unlink()
        put_back = errand(*placed(restore_command_of_the_page(), places), environment=variables)
        assert put_back.returncode == 0, put_back.stderr.decode()
    assert [path.name for path in tmp_path.iterdir() if path.is_dir()] == ["backup"]
    with serving(db) as (_, url), KnowledgeClient(url) as client:
        assert client.get_fact(fact).lifecycle == "live"


def test_a_schedule_needs_one_place_for_the_copies(helm: Path) -> None:
    for places in ([], ["knowledge.backup.claim=copies", "knowledge.backup.bucket=s3://copies"]):
        with pytest.raises(CommandFailed, match="needs either"):
            backup_container(helm, *places)


@contextmanager
def replicating(litestream: Path, configuration: Path) -> Iterator[None]:
    process = subprocess.Popen(
        [litestream, "replicate", "-config", configuration],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield
    finally:
        process.kill()
        process.wait()


def test_what_was_acknowledged_a_moment_before_the_volume_is_lost_comes_back(
    litestream: Path, tmp_path: Path
) -> None:
    db, replica, restored = (tmp_path / name for name in ("knowledge.db", "replica", "back.db"))
    configuration = tmp_path / "litestream.yml"
    configuration.write_text(_CONFIGURATION.format(db=db, replica=replica))
    with serving(db) as (process, url):
        with replicating(litestream, configuration), KnowledgeClient(url) as client:
            ids = []
            end = time.monotonic() + 6
            for number in itertools.count():
                if number >= 150 and time.monotonic() > end:
                    break
                message = f"the {number}th ship came in"
                ids.append(client.remember(FactIn(content=message)).fact_id)
                if number % 50 == 49:  # which empties the log, when nobody reads it
                    client.erase(ids.pop(), ReasonIn(reason="asked to"))
            time.sleep(4)  # more than the replica may be behind
        process.kill()
        process.wait()
    for lost in tmp_path.glob("knowledge.db*"):
        lost.unlink()

    command = [litestream, "restore", "-config", configuration, "-o", restored, db]
    completed_process = subprocess.run(command, capture_output=True, text=True, check=False)
    assert completed_process.returncode == 0, completed_process.stderr
    verified = errand("verify", "--db", restored)
    assert verified.returncode == 0, verified.stderr.decode()
    rebuilt = errand("rebuild", "--db", restored)
    assert b"no change" in rebuilt.stderr, rebuilt.stderr.decode()
    put_back = errand("restore", "--db", db, "--from", restored)
    assert put_back.returncode == 0, put_back.stderr.decode()
    with serving(db) as (_, url), KnowledgeClient(url) as client:
        assert len(ids) > 100
        assert all(client.get_fact(fact_id).id == fact_id for fact_id in ids)
