from pathlib import Path

from kais_cluster import subprocesses
from kais_cluster.host.cluster import HostCluster
from kais_cluster.settings import HostSettings

BINARIES = Path("/cache/bin")


def test_folder_of_the_binaries_comes_first(monkeypatch):
    monkeypatch.setenv("PATH", "/usr/bin:/cache/bin:/bin")
    assert subprocesses.search_path(BINARIES).split(":")[:3] == ["/cache/bin", "/usr/bin", "/bin"]


def test_system_folders_are_added_only_where_they_are_missing(monkeypatch):
    monkeypatch.setenv("PATH", "/usr/sbin:/usr/bin")
    folders = subprocesses.search_path().split(":")
    assert folders == ["/usr/sbin", "/usr/bin", "/usr/local/sbin", "/sbin"]


def test_empty_path_does_not_name_the_current_folder(monkeypatch):
    monkeypatch.setenv("PATH", "")
    assert "" not in subprocesses.search_path(BINARIES).split(":")


def test_second_evaluation_of_the_variables_changes_nothing(monkeypatch):
    cluster = HostCluster(HostSettings(directory=Path("/state"), binaries=BINARIES))
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.setenv("PATH", first := cluster.env()["PATH"])
    assert cluster.env()["PATH"] == first
