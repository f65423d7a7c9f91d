"""Find everything that this machine lacks for `make demo` and `make test`, before they start.

Runs as `python3 -m kais_cluster.preflight demo|test` and needs only Python's standard library. As
root on Debian it installs the missing packages with one `apt-get install`; otherwise it prints
that command and exits with status 2.
"""

import importlib.util
import os
import platform
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from kais_cluster import errors, settings, subprocesses
from kais_cluster.kind import docker

MINIMUM_PYTHON = (3, 11)
MINIMUM_GO = (1, 26)

_NODE_PACKAGES = (  # program, Debian package, what it is for
    ("openssl", "openssl", "keys of the cluster"),
    ("ip", "iproute2", "the pod network"),
    ("iptables", "iptables", "the pod network"),
    ("modprobe", "kmod", "the pod network"),
    ("buildah", "buildah", "building images"),
    ("debootstrap", "debootstrap", "the base image"),
    ("gcc", "gcc", "building runc"),
    ("pkg-config", "pkg-config", "building runc"),
)


@dataclass(frozen=True)
class MissingRequirement:
    """A program or permission that this machine lacks."""

    name: str
    purpose: str
    package: str = ""
    """The Debian package that contains it; empty if installing a package does not help."""
    advice: str = ""


def find_missing(*, node: bool) -> list[MissingRequirement]:
    """Return everything that is missing to build and run a cluster, with a node or without.

    If Docker answers, kind provides the node, and our binaries run only the control planes of
    tests.
    """
    node = node and not docker.is_available()
    requirements = [*_missing_base()]
    packages = _NODE_PACKAGES if node else _NODE_PACKAGES[:1]
    requirements += [
        MissingRequirement(name, why, pkg)
        for name, pkg, why in packages
        if not subprocesses.find_program(name)
    ]
    if node:
        if not _has_libseccomp():
            requirements.append(MissingRequirement("libseccomp", "building runc", "libseccomp-dev"))
        if os.geteuid() != 0:
            requirements.append(
                MissingRequirement("root", "running a node with pods", advice="run it as root")
            )
    return requirements


def check(
    *,
    node: bool,
    report: subprocesses.Reporter = subprocesses.print_line,
    find_requirements: Callable[[], Sequence[MissingRequirement]] | None = None,
    install: Callable[[Sequence[str]], None] | None = None,
) -> bool:
    """Report what is missing, install it if permitted, and return whether nothing is missing."""
    find_requirements = find_requirements or (lambda: find_missing(node=node))
    requirements = find_requirements()
    if not requirements:
        report("preflight: everything that is needed is here")
        return True
    for line in format_missing(requirements):
        report(line)
    packages = packages_of(requirements)
    can_install = install is not None or _may_install()
    if packages and not can_install:
        report(f"install what Debian has with: {install_command(packages, sudo=os.geteuid() != 0)}")
    if not packages or not can_install or any(not item.package for item in requirements):
        return False
    report(f"installing: {install_command(packages)}")
    (install or _install)(packages)
    if requirements := find_requirements():
        for line in format_missing(requirements):
            report(line)
        return False
    report("preflight: everything that is needed is here now")
    return True


def format_missing(requirements: Sequence[MissingRequirement]) -> list[str]:
    """Format the missing requirements, one line each."""
    lines = ["preflight: missing on this machine:"]
    for item in requirements:
        remedy = f"apt package {item.package}" if item.package else item.advice
        lines.append(f"  {item.name:<14} for {item.purpose}: {remedy}")
    return lines


def packages_of(requirements: Sequence[MissingRequirement]) -> list[str]:
    """Return the Debian packages of the missing requirements, without duplicates, in order."""
    return list(dict.fromkeys(item.package for item in requirements if item.package))


def install_command(packages: Sequence[str], *, sudo: bool = False) -> str:
    """Return the command that installs packages."""
    return f"{'sudo ' if sudo else ''}apt-get install -y {' '.join(packages)}"


def go_version(text: str) -> tuple[int, int]:
    """Parse the output of `go version`; (0, 0) for anything else."""
    match = re.search(r"\bgo(\d+)\.(\d+)", text)
    return (int(match[1]), int(match[2])) if match else (0, 0)


def _missing_base() -> list[MissingRequirement]:
    requirements = []
    if platform.system() != "Linux":
        requirements.append(
            MissingRequirement("Linux", "everything", advice=f"this is {platform.system()}")
        )
    if sys.version_info < MINIMUM_PYTHON:
        version = ".".join(map(str, MINIMUM_PYTHON))
        advice = f"this is {platform.python_version()}; name another with make PYTHON=..."
        requirements.append(MissingRequirement(f"Python {version}", "everything", advice=advice))
    if not importlib.util.find_spec("ensurepip"):
        requirements.append(
            MissingRequirement("python3-venv", "virtual environments", "python3-venv")
        )
    minimum_go = ".".join(map(str, MINIMUM_GO))
    go = subprocesses.find_go()
    if not go:
        advice = f"install Go {minimum_go} or newer from https://go.dev/dl"
        requirements.append(MissingRequirement("Go", "building Kubernetes", advice=advice))
    elif go_version(version_output := _output(go, "version")) < MINIMUM_GO:
        advice = f"{minimum_go} or newer from https://go.dev/dl (this is: {version_output.strip()})"
        requirements.append(MissingRequirement("Go", "building Kubernetes", advice=advice))
    return requirements


def _output(*argv: str) -> str:
    try:
        return subprocesses.run(argv, cwd=Path("/"), timeout_s=60)
    except errors.CommandFailed:
        return ""


def _has_libseccomp() -> bool:
    pkg_config = subprocesses.find_program("pkg-config")
    return bool(pkg_config) and bool(_output(str(pkg_config), "--modversion", "libseccomp").strip())


def _may_install() -> bool:
    return (
        os.geteuid() == 0
        and Path("/etc/debian_version").exists()
        and bool(subprocesses.find_program("apt-get"))
    )


def _install(packages: Sequence[str]) -> None:
    """Install with one apt-get; updates its lists first if they are incomplete or outdated."""
    apt = str(subprocesses.find_program("apt-get"))
    install = [apt, "install", "-y", "-q", *packages]
    query = subprocess.run(
        [str(subprocesses.find_program("apt-cache")), "show", "--no-all-versions", *packages],
        capture_output=True,
        check=False,
    )
    if query.returncode == 0 and _apt(install):
        return
    _apt([apt, "update", "-q"])
    _apt(install)


def _apt(argv: Sequence[str]) -> bool:
    env = settings.environment() | {
        "DEBIAN_FRONTEND": "noninteractive",
        "PATH": subprocesses.search_path(),  # dpkg requires the system folders
    }
    return subprocess.run(argv, env=env, stdin=subprocess.DEVNULL, check=False).returncode == 0


def main(argv: Sequence[str] = ()) -> int:
    """Check for `demo`, which needs a node, or `test`, which uses a node as root."""
    purpose = argv[0] if argv else "demo"
    if purpose not in {"demo", "test"}:
        subprocesses.print_line("usage: python3 -m kais_cluster.preflight demo|test")
        return 2
    uses_named_cluster = settings.named_kubeconfig() is not None
    required = purpose == "demo" or "e2e" in settings.required_tiers()
    node = not uses_named_cluster and (required or os.geteuid() == 0)
    return 0 if check(node=node) else 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
