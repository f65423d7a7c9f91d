import pytest

from kais_cluster import preflight

BUILDAH = preflight.MissingRequirement("buildah", "building images", "buildah")
IP = preflight.MissingRequirement("ip", "the pod network", "iproute2")
GO = preflight.MissingRequirement("Go", "building Kubernetes", advice="install Go 1.26 or newer")


def run(reads, *, install=None):
    """Run a check over what successive looks find; return the verdict and the lines."""
    lines = []
    remaining = list(reads)
    verdict = preflight.check(
        node=True, report=lines.append, find_requirements=lambda: remaining.pop(0), install=install
    )
    return verdict, lines


def test_everything_missing_is_listed_at_once():
    verdict, lines = run([[BUILDAH, IP, GO]], install=lambda packages: None)
    assert not verdict
    assert lines == [
        "preflight: missing on this machine:",
        "  buildah        for building images: apt package buildah",
        "  ip             for the pod network: apt package iproute2",
        "  Go             for building Kubernetes: install Go 1.26 or newer",
    ]


def test_missing_packages_are_installed_by_one_command():
    installed = []
    verdict, lines = run([[BUILDAH, IP], []], install=installed.append)
    assert verdict
    assert installed == [["buildah", "iproute2"]]
    assert "installing: apt-get install -y buildah iproute2" in lines


def test_nothing_is_installed_while_something_else_stops_the_run():
    installed = []
    run([[BUILDAH, GO]], install=installed.append)
    assert installed == []


def test_installation_that_did_not_help_is_told():
    verdict, lines = run([[BUILDAH], [BUILDAH]], install=lambda packages: None)
    assert not verdict
    assert lines[-1] == "  buildah        for building images: apt package buildah"


def test_command_for_an_ordinary_user_begins_with_sudo():
    command = preflight.install_command(["buildah", "kmod"], sudo=True)
    assert command == "sudo apt-get install -y buildah kmod"


def test_package_that_brings_two_things_is_named_once():
    other_missing_requirement = preflight.MissingRequirement("ss", "the pod network", "iproute2")
    assert preflight.packages_of([IP, other_missing_requirement]) == ["iproute2"]


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("go version go1.26.8 linux/amd64", (1, 26)),
        ("go version go1.9 linux/amd64", (1, 9)),
        ("nonsense", (0, 0)),
    ],
)
def test_go_version_is_read(text, version):
    assert preflight.go_version(text) == version
