import json
from pathlib import Path

import pytest

from kais_cluster import errors, image_catalog, providers, settings
from kais_cluster.host import component_builds
from kais_cluster.host.cluster import HostCluster
from kais_cluster.kind import docker
from kais_cluster.kind.cluster import KindCluster, configuration


class Recorder:
    """Stands in for running programs: notes what was asked, and answers by the first words."""

    def __init__(self, **answers):
        self.calls = []
        self.stdin = {}
        self.timeouts = {}
        self.answers = {"get clusters": "", "get --raw": "ok", "get nodes": "kais Ready"} | answers

    def __call__(self, argv, *, env=None, stdin=None, timeout_s=None):
        texts = [str(part) for part in argv]
        texts[0] = Path(texts[0]).name
        line = " ".join(texts)
        self.calls.append(line)
        self.stdin[line] = stdin
        self.timeouts[line] = timeout_s
        for beginning, answer in self.answers.items():
            if line.split(" ", 1)[1].startswith(beginning):
                if isinstance(answer, Exception):
                    raise answer
                return answer
        return ""


@pytest.fixture
def binaries(tmp_path, monkeypatch):
    """A folder that holds everything already: nothing is built."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("kubectl", "helm", "kind"):
        (folder / name).touch()
    monkeypatch.setattr(component_builds, "build", lambda *_, **__: None)
    return folder


def cluster(tmp_path, binaries, run, output=None):
    say = (lambda _: None) if output is None else output.append
    return KindCluster(tmp_path / "kind", binaries, say, run)


def test_up_creates_one_node_with_a_kubeconfig_of_its_own(tmp_path, binaries):
    run = Recorder()
    cluster(tmp_path, binaries, run).up(no_node=False)
    kubeconfig = tmp_path / "kind/kubeconfig"
    created = next(call for call in run.calls if call.startswith("kind create"))
    assert created == (
        f"kind create cluster --name kais --kubeconfig {kubeconfig} --wait 180s --config -"
    )
    assert json.loads(run.stdin[created]) == json.loads(configuration(tmp_path / "kind/audit"))
    assert "level: Metadata" in (tmp_path / "kind/audit/policy.yaml").read_text()


def test_up_uses_a_cluster_that_answers(tmp_path, binaries):
    run, messages = Recorder(**{"get clusters": "other\nkais\n"}), []
    cluster(tmp_path, binaries, run, messages).up(no_node=False)
    assert not [call for call in run.calls if "create" in call or "delete" in call]
    assert messages == [f"already up (kind), used as it is: {tmp_path}/kind"]


def test_up_deletes_a_cluster_that_no_longer_answers_and_makes_a_new_one(tmp_path, binaries):
    silent = errors.CommandFailed("connection refused")
    run, messages = Recorder(**{"get clusters": "kais\n", "get --raw": silent}), []
    cluster(tmp_path, binaries, run, messages).up(no_node=False)
    verbs = [call.split()[1] for call in run.calls if call.startswith("kind ")]
    assert verbs == ["get", "get", "delete", "create"]
    assert messages[0] == "deleting the kind cluster that an earlier run left behind"


def test_a_new_cluster_has_none_of_the_images_of_the_one_before(tmp_path, binaries):
    record = tmp_path / "kind/images/operator"
    record.parent.mkdir(parents=True)
    record.write_text("sha256:loaded into the node before")
    cluster(tmp_path, binaries, Recorder()).up(no_node=False)
    assert not record.exists()


def test_up_tells_what_kind_said_when_it_gives_up(tmp_path, binaries):
    run = Recorder(create=errors.CommandFailed("kind create … ended with 1: no space left"))
    with pytest.raises(errors.StartFailed, match=r"could not make the cluster kais: .*no space"):
        cluster(tmp_path, binaries, run).up(no_node=False)


def test_another_kind_cluster_of_the_user_is_not_ours(tmp_path, binaries):
    run = Recorder(**{"get clusters": "kind\nkais-old\n"})
    assert cluster(tmp_path, binaries, run).status().mode == "down"


def test_down_deletes_the_cluster_and_its_folder(tmp_path, binaries):
    run = Recorder(**{"get clusters": "kais\n"})
    kind_cluster = cluster(tmp_path, binaries, run)
    kind_cluster.audit_log.parent.mkdir(parents=True)
    kind_cluster.down()
    assert f"kind delete cluster --name kais --kubeconfig {kind_cluster.kubeconfig}" in run.calls
    assert not kind_cluster.directory.exists()


def test_status_shows_the_nodes_as_kubectl_prints_them(tmp_path, binaries):
    status = cluster(tmp_path, binaries, Recorder(**{"get clusters": "kais\n"})).status()
    assert status.is_up
    assert status.lines() == [
        f"kind cluster, mode: node, state: {tmp_path}/kind",
        "kais Ready",
    ]


def test_an_image_is_loaded_from_its_archive(tmp_path, binaries):
    run = Recorder(**{"get clusters": "kais\n"})
    cluster(tmp_path, binaries, run).load_image(tmp_path / "image.tar", name="localhost/a:1")
    assert run.calls[-1] == f"kind load image-archive {tmp_path}/image.tar --name kais"


def test_an_image_needs_a_cluster(tmp_path, binaries):
    with pytest.raises(errors.NotRunning, match="cannot load localhost/a:1: no kind cluster kais"):
        cluster(tmp_path, binaries, Recorder()).load_image(tmp_path / "i.tar", name="localhost/a:1")


def test_the_audit_log_is_written_to_a_folder_of_this_machine():
    document = json.loads(configuration(Path("/state/audit")))
    node = document["nodes"][0]
    patch = json.loads(node["kubeadmConfigPatches"][0])
    mount = node["extraMounts"][0]
    assert mount["hostPath"] == "/state/audit"
    log = patch["apiServer"]["extraArgs"]["audit-log-path"]
    assert log == mount["containerPath"] + "/audit.log"
    assert patch["apiServer"]["extraVolumes"][0]["hostPath"] == mount["containerPath"]


def test_docker_has_five_seconds_to_answer():
    run = Recorder(info="28.2.2\n")
    assert docker.answers(run)
    (line,) = run.calls
    assert line == "docker info --format {{.ServerVersion}}"
    assert run.timeouts[line] == 5


@pytest.mark.parametrize(
    "answer",
    [errors.CommandFailed("did not end within 5 s"), "\n"],
    ids=["silent or refusing", "a client without a daemon"],
)
def test_without_an_answer_there_is_no_docker(answer):
    assert not docker.answers(Recorder(info=answer))


def test_kind_is_chosen_where_docker_answers(monkeypatch):
    monkeypatch.delenv("KAIS_E2E_KUBECONFIG", raising=False)
    assert isinstance(providers.choose(has_docker=lambda: True), KindCluster)
    assert isinstance(providers.choose(has_docker=lambda: False), HostCluster)


def test_a_control_plane_alone_is_the_hosts_also_where_docker_answers(monkeypatch):
    monkeypatch.delenv("KAIS_E2E_KUBECONFIG", raising=False)
    assert isinstance(providers.choose(no_node=True, has_docker=lambda: True), HostCluster)


def test_a_named_cluster_comes_before_kind(monkeypatch, tmp_path):
    file = tmp_path / "kubeconfig"
    file.touch()
    monkeypatch.setenv("KAIS_E2E_KUBECONFIG", str(file))
    assert providers.choose(has_docker=lambda: True).name == "kubeconfig"


def test_a_named_cluster_whose_kubeconfig_is_missing_is_an_invalid_setting(monkeypatch, tmp_path):
    monkeypatch.setenv("KAIS_E2E_KUBECONFIG", str(tmp_path / "none"))
    with pytest.raises(errors.InvalidSetting, match="none, and there is no such file"):
        providers.choose(has_docker=lambda: True)


def test_images_for_kind_are_built_by_docker(tmp_path, binaries):
    kind_cluster = cluster(tmp_path, binaries, Recorder())
    assert isinstance(image_catalog.builder_for(kind_cluster), docker.DockerBuilder)


def test_docker_builds_tags_saves_and_removes(tmp_path):
    run, messages = Recorder(**{"image inspect": "sha256:abc\n"}), []
    builder = docker.DockerBuilder(messages.append, run)
    identity = builder.build(
        tmp_path, "localhost/a:1", tmp_path / "Dockerfile", arguments={"VERSION": "1"}
    )
    with builder.archive("localhost/a:1") as archive:
        saved = archive
    builder.remove("localhost/a:1")
    assert identity == "sha256:abc"
    assert messages == ["unchanged localhost/a:1 in 0 s"]
    assert [call for call in run.calls if "inspect" not in call] == [
        (
            f"docker build --quiet --file {tmp_path}/Dockerfile --build-arg VERSION=1"
            f" --tag localhost/a:1 {tmp_path}"
        ),
        f"docker save --output {saved} localhost/a:1",
        "docker image rm --force localhost/a:1",
    ]


def test_state_of_kind_lies_beside_that_of_the_host_cluster():
    assert settings.kind_dir({"HOME": "/home/me"}) == Path("/home/me/.local/state/kais/kind")
