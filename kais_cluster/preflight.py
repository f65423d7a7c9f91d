"""What this machine lacks for `make demo` and `make test`: everything at once, up front.

Runs as `python3 -m kais_cluster.preflight demo|test` with nothing but Python's standard library.
As root on Debian it installs the missing packages with one `apt-get install`; otherwise it prints
that command and stops with status 2.
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

from kais_cluster import errors, settings, tools
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
class Missing:
    """One thing that this machine lacks."""

    what: str
    purpose: str
    package: str = ""
    """The Debian package that brings it; empty when a person must do something else."""
    advice: str = ""


def missing(*, node: bool) -> list[Missing]:
    """List everything that is missing to build and run a cluster, with a node or without.

    Where Docker answers, the node is kind's, and only the control planes of tests are ours.
    """
    node = node and not docker.is_here()
    found = [*_missing_base()]
    packages = _NODE_PACKAGES if node else _NODE_PACKAGES[:1]
    found += [Missing(name, why, pkg) for name, pkg, why in packages if not tools.find(name)]
    if node:
        if not _has_libseccomp():
            found.append(Missing("libseccomp", "building runc", "libseccomp-dev"))
        if os.geteuid() != 0:
            found.append(Missing("root", "running a node with pods", advice="run it as root"))
    return found


def check(
    *,
    node: bool,
    say: tools.Say = tools.say,
    look: Callable[[], Sequence[Missing]] | None = None,
    install: Callable[[Sequence[str]], None] | None = None,
) -> bool:
    """Tell what is missing, install what may be installed, and return whether all is there."""
    look = look or (lambda: missing(node=node))
    lacks = look()
    if not lacks:
        say("preflight: everything that is needed is here")
        return True
    for line in report(lacks):
        say(line)
    packages = packages_of(lacks)
    can_install = install is not None or _may_install()
    if packages and not can_install:
        say(f"install what Debian has with: {install_command(packages, sudo=os.geteuid() != 0)}")
    if not packages or not can_install or any(not item.package for item in lacks):
        return False
    say(f"installing: {install_command(packages)}")
    (install or _install)(packages)
    if lacks := look():
        for line in report(lacks):
            say(line)
        return False
    say("preflight: everything that is needed is here now")
    return True


def report(lacks: Sequence[Missing]) -> list[str]:
    """Render the list of missing things, one line each."""
    lines = ["preflight: missing on this machine:"]
    for item in lacks:
        remedy = f"apt package {item.package}" if item.package else item.advice
        lines.append(f"  {item.what:<14} for {item.purpose}: {remedy}")
    return lines


def packages_of(lacks: Sequence[Missing]) -> list[str]:
    """Name the Debian packages that bring the missing things, each once, in order."""
    return list(dict.fromkeys(item.package for item in lacks if item.package))


def install_command(packages: Sequence[str], *, sudo: bool = False) -> str:
    """Write the one command that installs packages."""
    return f"{'sudo ' if sudo else ''}apt-get install -y {' '.join(packages)}"


def go_version(text: str) -> tuple[int, int]:
    """Read the version out of what `go version` prints; (0, 0) when it says something else."""
    found = re.search(r"\bgo(\d+)\.(\d+)", text)
    return (int(found[1]), int(found[2])) if found else (0, 0)


def _missing_base() -> list[Missing]:
    found = []
    if platform.system() != "Linux":
        found.append(Missing("Linux", "everything", advice=f"this is {platform.system()}"))
    if sys.version_info < MINIMUM_PYTHON:
        version = ".".join(map(str, MINIMUM_PYTHON))
        advice = f"this is {platform.python_version()}; name another with make PYTHON=..."
        found.append(Missing(f"Python {version}", "everything", advice=advice))
    if not importlib.util.find_spec("ensurepip"):
        found.append(Missing("python3-venv", "virtual environments", "python3-venv"))
    wanted = ".".join(map(str, MINIMUM_GO))
    go = tools.find_go()
    if not go:
        advice = f"install Go {wanted} or newer from https://go.dev/dl"
        found.append(Missing("Go", "building Kubernetes", advice=advice))
    elif go_version(said := _output(go, "version")) < MINIMUM_GO:
        advice = f"{wanted} or newer from https://go.dev/dl (this is: {said.strip()})"
        found.append(Missing("Go", "building Kubernetes", advice=advice))
    return found


def _output(*argv: str) -> str:
    try:
        return tools.run(argv, cwd=Path("/"), timeout_s=60)
    except errors.CommandFailed:
        return ""


def _has_libseccomp() -> bool:
    found = tools.find("pkg-config")
    return bool(found) and bool(_output(str(found), "--modversion", "libseccomp").strip())


def _may_install() -> bool:
    return (
        os.geteuid() == 0 and Path("/etc/debian_version").exists() and bool(tools.find("apt-get"))
    )


def _install(packages: Sequence[str]) -> None:
    """Install with one apt-get; refresh its lists first when they lack or no longer serve it."""
    apt = str(tools.find("apt-get"))
    install = [apt, "install", "-y", "-q", *packages]
    known = subprocess.run(
        [str(tools.find("apt-cache")), "show", "--no-all-versions", *packages],
        capture_output=True,
        check=False,
    )
    if known.returncode == 0 and _apt(install):
        return
    _apt([apt, "update", "-q"])
    _apt(install)


def _apt(argv: Sequence[str]) -> bool:
    env = settings.environment() | {
        "DEBIAN_FRONTEND": "noninteractive",
        "PATH": tools.search_path(),  # dpkg insists on the system folders
    }
    return subprocess.run(argv, env=env, stdin=subprocess.DEVNULL, check=False).returncode == 0


def main(argv: Sequence[str] = ()) -> int:
    """Check for `demo` (a node is needed) or `test` (a node is used where root is)."""
    purpose = argv[0] if argv else "demo"
    if purpose not in {"demo", "test"}:
        tools.say("usage: python3 -m kais_cluster.preflight demo|test")
        return 2
    named = settings.named_kubeconfig() is not None
    required = purpose == "demo" or "e2e" in settings.required_tiers()
    node = not named and (required or os.geteuid() == 0)
    return 0 if check(node=node) else 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
