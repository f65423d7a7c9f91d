"""What a release publishes, in which order, and what it refuses."""

import json
from pathlib import Path

import pytest

from kais_cluster import errors, image_catalog
from scripts import release

ROOT = Path(__file__).resolve().parents[3]
OPERATOR = next(image for image in release.PUBLISHED_IMAGES if image.name == "operator")
INDEX = {
    "manifests": [
        {"digest": f"sha256:{name}", "platform": {"os": "linux", "architecture": name}}
        for name in ("amd64", "arm64")
    ]
}


class Builder:
    """Builds nothing, and pushes to a registry that answers or not."""

    def __init__(self, error=""):
        self.error = error
        self.references = []

    def build_index(self, context, reference, dockerfile, *, platforms, arguments):
        assert dockerfile.exists()
        self.references.append((reference, tuple(platforms), arguments))

    def push_index(self, reference, *, plain_http):
        if self.error:
            raise errors.CommandFailed(self.error)
        return "sha256:index"


@pytest.fixture
def programs(tmp_path):
    """Programs that write their arguments into a log, and succeed."""
    folder = tmp_path / "programs"
    folder.mkdir()
    for name in release.TOOLS:
        (folder / name).write_text(
            f"""#!/bin/sh
echo {name} "$@" >>{tmp_path}/calls
case "$1" in
manifest) echo '{json.dumps(INDEX)}' ;;
digest) echo sha256:chart ;;
push) [ ! -e {tmp_path}/refuses ] ;;
esac
"""
        )
        (folder / name).chmod(0o755)
    return folder


def calls(programs):
    log = programs.parent / "calls"
    return log.read_text().splitlines() if log.exists() else []


def a_release(programs, **options):
    source = image_catalog.checkout()
    return release.Release(source, "r.example/kais", programs, report=lambda line: None, **options)


def test_an_image_is_signed_by_its_digest_and_has_an_sbom_for_each_platform(programs):
    builder = Builder()
    it = a_release(programs)
    published = it.publish_image(OPERATOR, builder, ["linux/amd64", "linux/arm64"])
    version = it.source.version
    assert published == "r.example/kais/operator@sha256:index"
    assert builder.references == [
        (
            f"r.example/kais/operator:{version}",
            ("linux/amd64", "linux/arm64"),
            {"VERSION": version},
        )
    ]
    sign, manifest, *sboms = calls(programs)
    assert sign == f"cosign sign --yes --recursive {published}"
    assert manifest == f"crane manifest {published}"
    for scan, attest, platform in zip(sboms[::2], sboms[1::2], ("amd64", "arm64"), strict=True):
        assert scan.startswith(f"syft scan registry:{published} --platform linux/{platform} ")
        assert attest.startswith("cosign attest --yes --type spdxjson --predicate ")
        assert attest.endswith(published)


def test_a_key_signs_without_the_services_of_sigstore(programs):
    a_release(programs, key="my.key").publish_image(OPERATOR, Builder(), [])
    cosign = [call.split() for call in calls(programs) if call.startswith("cosign")]
    signing = cosign[2::3]
    assert [call[1] for call in signing] == ["sign", "attest", "attest"]
    for config, root, call in zip(cosign[::3], cosign[1::3], signing, strict=True):
        assert config[1:4] == ["signing-config", "create", "--out"]
        assert call[call.index("--signing-config") + 1] == config[4]
        assert root[1:4] == ["trusted-root", "create", "--out"]
        assert call[call.index("--trusted-root") + 1] == root[4]
        assert call[call.index("--key") + 1] == "my.key"


def test_an_image_whose_push_failed_is_not_signed(programs):
    with pytest.raises(errors.CommandFailed, match="refused"):
        a_release(programs).publish_image(OPERATOR, Builder("refused"), [])
    assert calls(programs) == []


def test_charts_are_packaged_pushed_and_signed_by_their_digests(programs):
    it = a_release(programs)
    assert it.publish_charts() == [
        "r.example/kais/charts/kais-crds@sha256:chart",
        "r.example/kais/charts/kais@sha256:chart",
    ]
    actions = [" ".join(call.split()[:2]) for call in calls(programs)]
    assert actions == ["helm package", "helm push", "crane digest", "cosign sign"] * 2
    signed = [call.split()[-1] for call in calls(programs) if call.startswith("cosign sign ")]
    assert signed == it.publish_charts()


def test_a_chart_whose_push_failed_is_not_signed(programs):
    (programs.parent / "refuses").touch()
    with pytest.raises(errors.CommandFailed, match="push"):
        a_release(programs).publish_charts()
    assert [call.split()[:2] for call in calls(programs)] == [
        ["helm", "package"],
        ["helm", "push"],
    ]


def test_the_published_chart_names_the_published_images():
    values = (ROOT / "charts/kais/values.yaml").read_text()
    published = release.published_values(values, "r.example/kais")
    for name in ("operator", "knowledge", "agent"):
        assert f"repository: r.example/kais/{name}\n" in published
    assert "localhost/" not in published


def test_a_chart_with_an_image_that_is_not_published_is_refused():
    with pytest.raises(release.InvalidRelease, match="without a release: model-server"):
        release.published_values("image: localhost/kais/model-server\n", "r.example/kais")


def test_a_tag_of_another_version_is_refused(capsys):
    assert release.main(["r.example/kais", "--tag", "v99.0.0"]) == 1
    assert "the tag is v99.0.0, and pyproject.toml has version" in capsys.readouterr().err
    release.check_tag("", "1.2.3")
    release.check_tag("v1.2.3", "1.2.3")


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["/", "--key", "k"], "name a registry, such as ghcr.io/you/kais"),
        (["r.example/kais"], "there is nothing to sign with"),
    ],
)
def test_a_release_that_cannot_be_pushed_or_signed_builds_nothing(
    capsys, monkeypatch, arguments, problem
):
    monkeypatch.delenv("SIGSTORE_ID_TOKEN", raising=False)
    monkeypatch.delenv("ACTIONS_ID_TOKEN_REQUEST_URL", raising=False)
    monkeypatch.setattr(release.component_builds, "build", pytest.fail)
    assert release.main(arguments) == 1
    assert problem in capsys.readouterr().err


@pytest.mark.parametrize("names", [["model-server"], ["operator", "nothing"]])
def test_a_name_without_a_release_is_a_usage_error(names):
    with pytest.raises(SystemExit) as exit_info:
        release.main(["r.example/kais", *names])
    assert exit_info.value.code == 2


def test_names_may_follow_options(monkeypatch):
    published = []
    monkeypatch.setattr(release, "publish", published.append)
    assert release.main(["r.example/kais", "--key", "k", "operator", "charts", "--plain-http"]) == 0
    assert (published[0].names, published[0].key) == (["operator", "charts"], "k")
