import pytest

from kais_cluster import errors
from kais_cluster.host import component_builds

GO = "go version go1.26.8 linux/amd64\n"


def binary(name):
    return component_builds.by_name([name])[0]


def test_control_plane_needs_four_binaries():
    names = [
        control_plane_binary.name
        for control_plane_binary in component_builds.control_plane_binaries()
    ]
    assert names == ["etcd", "kube-apiserver", "kube-controller-manager", "kubectl"]


def test_node_needs_the_control_plane_first():
    names = [node_binary.name for node_binary in component_builds.node_binaries()]
    assert names[:4] == [
        node_binary.name for node_binary in component_builds.control_plane_binaries()
    ]
    assert {"kubelet", "containerd", "runc", "coredns", "helm", "pause"} < set(names)


def test_each_binary_has_its_pins():
    for it in [*component_builds.node_binaries(), *component_builds.extra_binaries()]:
        assert (component_builds.MODULES / it.module / "go.mod").exists(), it.name


def test_kubernetes_is_told_its_version():
    flags = " ".join(binary("kubelet").flags)
    assert f"version.gitVersion={component_builds.kubernetes_version()}" in flags


def test_unknown_binary_is_named_with_what_is_known():
    with pytest.raises(errors.MissingTools, match="no such binary: kubeadm; known: etcd, "):
        component_builds.by_name(["kubeadm"])


@pytest.mark.parametrize(
    ("first", "second"),
    [
        pytest.param(("etcd", GO), ("etcd", GO.replace("26", "27")), id="another Go"),
        pytest.param(("kubelet", GO), ("kubectl", GO), id="another package of one module"),
        pytest.param(("etcd", GO), ("helm", GO), id="another module"),
    ],
)
def test_stamp_changes_with(first, second):
    stamps = [component_builds.stamp(binary(name), go_version=go) for name, go in (first, second)]
    assert stamps[0] != stamps[1]


def test_binary_is_current_while_its_stamp_holds(tmp_path):
    etcd = binary("etcd")
    (tmp_path / ".stamps").mkdir()
    (tmp_path / ".stamps/etcd").write_text(component_builds.stamp(etcd, go_version=GO) + "\n")
    assert not component_builds.is_current(etcd, tmp_path, go_version=GO)
    (tmp_path / "etcd").touch()
    assert component_builds.is_current(etcd, tmp_path, go_version=GO)
    assert not component_builds.is_current(etcd, tmp_path, go_version=GO.replace("26", "27"))


def test_first_build_says_how_long_it_takes(tmp_path):
    messages = []
    component_builds._announce(component_builds.node_binaries(), tmp_path, report=messages.append)
    assert messages == [
        f"building 18 binaries into {tmp_path}: a first build takes about 15 minutes on 2 cores"
    ]


def test_each_built_binary_is_followed_by_the_next_and_the_time_left(tmp_path, monkeypatch):
    built = []
    monkeypatch.setattr(component_builds.subprocesses, "find_go", lambda: "go")
    monkeypatch.setattr(component_builds.subprocesses, "run", lambda *_, **__: GO)

    def build_one(binary, folder, **_):
        built.append(binary.name)
        return "built in 3 s"

    monkeypatch.setattr(component_builds, "_build_one", build_one)
    messages = []
    binaries = component_builds.by_name(["etcd", "kube-apiserver", "kubectl"])
    component_builds.build(binaries, tmp_path, report=messages.append)
    assert built == ["etcd", "kube-apiserver", "kubectl"]
    assert messages[1:] == [
        "  [ 1/3] etcd                     built in 3 s; next kube-apiserver, about 5 minutes left",
        "  [ 2/3] kube-apiserver           built in 3 s",
        "  [ 3/3] kubectl                  built in 3 s",
    ]
