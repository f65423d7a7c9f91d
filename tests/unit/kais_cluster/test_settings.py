from pathlib import Path

import pytest

from kais_cluster import errors, settings


def test_defaults_lie_under_the_home_of_the_user(tmp_path):
    host_settings = settings.host({"HOME": "/home/u"}, owner_file=tmp_path / "none")
    assert host_settings.directory == Path("/home/u/.local/state/kais/host-cluster")
    assert host_settings.binaries == Path("/home/u/.cache/kais/host-cluster/bin")


def test_control_plane_alone_has_a_directory_of_its_own(tmp_path):
    host_settings = settings.host({"HOME": "/home/u"}, no_node=True, owner_file=tmp_path / "none")
    assert host_settings.directory == Path("/home/u/.local/state/kais/control-plane")


def test_cluster_with_a_node_of_another_home_is_the_one_meant(tmp_path):
    other_tmp_path = tmp_path / "c"
    other_tmp_path.mkdir()
    (other_tmp_path / "mode").write_text("node\n")
    owner = tmp_path / "owner"
    owner.write_text(f"{other_tmp_path}\n")
    # The path of a test's folder is longer than sockets allow; only the choice matters here.
    assert settings._owner(owner) == other_tmp_path


def test_owner_whose_directory_is_gone_is_ignored(tmp_path):
    owner = tmp_path / "owner"
    owner.write_text("/nonexistent\n")
    host_settings = settings.host({"HOME": "/home/u"}, owner_file=owner)
    assert host_settings.directory == Path("/home/u/.local/state/kais/host-cluster")


def test_directory_too_long_for_sockets_is_refused():
    with pytest.raises(
        errors.InvalidSetting, match="too long for UNIX sockets \\(70 characters at most\\)"
    ):
        settings.host({"KAIS_CLUSTER_DIR": "/" + "x" * 80})


def test_required_tiers_are_read_from_a_list():
    tiers = settings.required_tiers({"KAIS_REQUIRE_TIERS": "unit, contract,"})
    assert tiers == {"unit", "contract"}


def test_a_wait_that_is_no_number_is_refused_with_its_variable(tmp_path):
    with pytest.raises(errors.InvalidSetting, match="KAIS_CLUSTER_WAIT_S must be a number"):
        settings.host({"HOME": str(tmp_path), "KAIS_CLUSTER_WAIT_S": "soon"})
