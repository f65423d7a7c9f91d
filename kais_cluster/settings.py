"""The settings of clusters: the only reader of os.environ in this package.

KAIS_E2E_KUBECONFIG    a cluster named on purpose; nothing is started or stopped then
KAIS_CLUSTER_DIR       all state of one cluster, at most 70 characters;
                       default ~/.local/state/kais/host-cluster, or …/kind where Docker is
KAIS_CLUSTER_BIN       the binaries; default ~/.cache/kais/host-cluster/bin
KAIS_CLUSTER_NET       first three bytes of the pod network; default 10.244.0
KAIS_CLUSTER_SERVICES  first two bytes of the service network; default 10.96
KAIS_CLUSTER_BRIDGE    the bridge of the pod network; default kais0
DEBIAN_MIRROR          where debootstrap gets the base image; default its own choice
KAIS_CLUSTER_WAIT_S    seconds until `up` gives up; default 180
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from kais_cluster import errors

OWNER_FILE = Path("/run/kais-host-cluster")
"""Contains the path of the state directory of this machine's cluster with a node."""

_SOCKET_LIMIT = 70  # a UNIX socket path may have 108 characters, and containerd adds up to 38


@dataclass(frozen=True)
class HostSettings:
    """The folders and networks of one host cluster."""

    directory: Path
    binaries: Path
    network: str = "10.244.0"
    services: str = "10.96"
    bridge: str = "kais0"
    wait_s: float = 180.0
    owner_file: Path = OWNER_FILE

    def __post_init__(self) -> None:
        if len(str(self.directory)) > _SOCKET_LIMIT:
            raise errors.InvalidSetting(
                f"KAIS_CLUSTER_DIR is too long for UNIX sockets ({_SOCKET_LIMIT} characters"
                f" at most): {self.directory}"
            )


def environment() -> dict[str, str]:
    """Return a copy of the process environment."""
    return dict(os.environ)


def named_kubeconfig(env: Mapping[str, str] | None = None) -> Path | None:
    """Return the kubeconfig that KAIS_E2E_KUBECONFIG names; None if it is not set."""
    value = (os.environ if env is None else env).get("KAIS_E2E_KUBECONFIG", "")
    return Path(value) if value else None


def required_tiers(env: Mapping[str, str] | None = None) -> frozenset[str]:
    """Return the test tiers of KAIS_REQUIRE_TIERS, which must run and must not fail."""
    value = (os.environ if env is None else env).get("KAIS_REQUIRE_TIERS", "")
    return frozenset(name.strip() for name in value.split(",") if name.strip())


def binaries_dir(env: Mapping[str, str] | None = None) -> Path:
    """Return the folder of the cached binaries, one per user."""
    variables = os.environ if env is None else env
    if directory := variables.get("KAIS_CLUSTER_BIN"):
        return Path(directory).absolute()
    return _base(variables, "XDG_CACHE_HOME", ".cache") / "kais/host-cluster/bin"


def images_dir(env: Mapping[str, str] | None = None) -> Path:
    """Return the folder of our image storage, separate from buildah's default one."""
    variables = os.environ if env is None else env
    return _base(variables, "XDG_STATE_HOME", ".local/state") / "kais/images"


def kind_dir(env: Mapping[str, str] | None = None) -> Path:
    """Return the state directory of this user's kind cluster."""
    variables = os.environ if env is None else env
    if directory := variables.get("KAIS_CLUSTER_DIR"):
        return Path(directory).absolute()
    return _base(variables, "XDG_STATE_HOME", ".local/state") / "kais/kind"


def debian_mirror() -> str:
    """Return the mirror in DEBIAN_MIRROR; empty for debootstrap's default."""
    return os.environ.get("DEBIAN_MIRROR", "")


def certificates() -> Path:
    """Return the file with this machine's certificate authorities."""
    default = "/etc/ssl/certs/ca-certificates.crt"
    return Path(os.environ.get("PIP_CERT") or os.environ.get("SSL_CERT_FILE") or default)


def pip_variables() -> str:
    """Format the PIP_* variables like `pip config list`, for a machine without pip."""
    variables = ((key, value) for key, value in os.environ.items() if key.startswith("PIP_"))
    names = (
        (key.removeprefix("PIP_").lower().replace("_", "-"), value) for key, value in variables
    )
    return "\n".join(f":env:.{key}='{value}'" for key, value in names)


def host(
    env: Mapping[str, str] | None = None,
    *,
    no_node: bool = False,
    owner_file: Path = OWNER_FILE,
) -> HostSettings:
    """Read the settings of the host cluster, with or without a node.

    Without KAIS_CLUSTER_DIR, a cluster with a node is the one of this machine, regardless of which
    user's home directory contains it. A control plane without a node has a separate folder.

    Raises:
        InvalidSetting: A variable has an invalid value.
    """
    variables = os.environ if env is None else env
    state = _base(variables, "XDG_STATE_HOME", ".local/state") / "kais"
    if configured_directory := variables.get("KAIS_CLUSTER_DIR"):
        directory = Path(configured_directory).absolute()
    elif no_node:
        directory = state / "control-plane"
    else:
        directory = _owner(owner_file) or state / "host-cluster"
    return HostSettings(
        directory=directory,
        binaries=binaries_dir(variables),
        network=variables.get("KAIS_CLUSTER_NET", "10.244.0"),
        services=variables.get("KAIS_CLUSTER_SERVICES", "10.96"),
        bridge=variables.get("KAIS_CLUSTER_BRIDGE", "kais0"),
        wait_s=_seconds(variables.get("KAIS_CLUSTER_WAIT_S", "180")),
        owner_file=owner_file,
    )


def _seconds(value: str) -> float:
    try:
        return float(value)
    except ValueError as exc:
        raise errors.InvalidSetting(
            f"KAIS_CLUSTER_WAIT_S must be a number of seconds, got {value!r}"
        ) from exc


def _base(env: Mapping[str, str], variable: str, default: str) -> Path:
    return Path(env.get(variable) or Path(env.get("HOME") or Path.home()) / default)


def _owner(owner_file: Path) -> Path | None:
    try:
        directory = Path(owner_file.read_text().strip())
    except OSError:
        return None
    return directory if (directory / "mode").exists() else None
