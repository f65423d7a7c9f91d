"""The restore drill of docs/how-to/back-up-and-restore.md: a replica beside a busy service."""

from __future__ import annotations

import itertools
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kais_cluster import settings
from kais_cluster.host import component_builds
from knowledge_client import KnowledgeClient
from knowledge_client.models import FactIn, ReasonIn
from tests.cluster.test_namespaced_rights import rendered
from tests.knowledge_process import errand, serving

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


def test_backup_of_the_chart_beside_a_service_is_restored(helm: Path, tmp_path: Path) -> None:
    values = ("knowledge.backup.schedule=17 2 * * *", "knowledge.backup.claim=copies")
    bodies = rendered(helm, *values, "knowledge.backup.keep=2", namespace="kais-system")
    (job,) = (body for body in bodies if body["kind"] == "CronJob")
    pod = job["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    places = {"/data": tmp_path, "/backup": tmp_path / "backup"}
    mounts = {mount["mountPath"] for mount in pod["containers"][0]["volumeMounts"]}
    assert mounts > set(places)
    places["/backup"].mkdir()
    arguments = [
        next((arg.replace(at, str(to)) for at, to in places.items() if at in arg), arg)
        for arg in pod["containers"][0]["args"]
    ]
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
