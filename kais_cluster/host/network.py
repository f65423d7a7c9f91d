"""The pod network of a node: a bridge, forwarding rules, and the sysctls that they need.

`down` reverts every change: our rules carry a comment, and the old values of sysctls are recorded
in the state directory.
"""

import contextlib
import socket
from pathlib import Path

from kais_cluster import errors, settings, subprocesses

_COMMENT = ("-m", "comment", "--comment", "kais-host-cluster")
_DNS_QUERY = b"\0\1\1\0\0\1\0\0\0\0\0\0"  # one question, recursion desired


def up(host: settings.HostSettings) -> None:
    """Create the bridge and the rules; replaces those of a cluster whose directory is gone."""
    with contextlib.suppress(errors.CommandFailed):  # without the module kube-proxy masquerades
        subprocesses.run(["modprobe", "br_netfilter"])
    _remove(host)
    subprocesses.run(["ip", "link", "add", host.bridge, "type", "bridge"])
    subprocesses.run(["ip", "addr", "add", f"{host.network}.1/24", "dev", host.bridge])
    subprocesses.run(["ip", "link", "set", host.bridge, "up"])
    _set_sysctl(host, "net/ipv4/ip_forward", "1")
    _set_sysctl(host, "net/bridge/bridge-nf-call-iptables", "1")
    _forward_rules(host, "-A")


def down(host: settings.HostSettings) -> None:
    """Remove everything that `up`, kube-proxy and the kubelet created on this machine's network."""
    config = host.directory / "kube-proxy.yaml"
    if config.exists():
        with contextlib.suppress(errors.CommandFailed):  # the next lines remove the rest
            subprocesses.run([host.binaries / "kube-proxy", "--config", config, "--cleanup"])
    _remove(host)
    _restore_sysctls(host)
    with contextlib.suppress(errors.CommandFailed):  # kube-proxy leaves this chain behind, empty
        if "\n-A" not in subprocesses.run(["iptables", "-w", "-S", "KUBE-FIREWALL"]):
            for chain in ("INPUT", "OUTPUT"):
                subprocesses.run(["iptables", "-w", "-D", chain, "-j", "KUBE-FIREWALL"])
            subprocesses.run(["iptables", "-w", "-X", "KUBE-FIREWALL"])


def dns_answers(address: str) -> bool:
    """Return whether a DNS server resolves the API server's name in the cluster."""
    labels = b"kubernetes.default.svc.cluster.local".split(b".")
    name = b"".join(bytes([len(label)]) + label for label in labels)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.settimeout(1)
        try:
            client.sendto(_DNS_QUERY + name + b"\0\0\1\0\1", (address, 53))
            return client.recv(512)[7] > 0  # the number of answers
        except OSError:
            return False


def _remove(host: settings.HostSettings) -> None:
    with contextlib.suppress(errors.CommandFailed):  # no rule is left
        while True:
            _forward_rules(host, "-D")
    with contextlib.suppress(errors.CommandFailed):  # no bridge is left
        subprocesses.run(["ip", "link", "del", host.bridge])


def _forward_rules(host: settings.HostSettings, action: str) -> None:
    source, bridge = f"{host.network}.0/24", host.bridge
    nat = ["POSTROUTING", "-s", source, "!", "-o", bridge, *_COMMENT, "-j", "MASQUERADE"]
    subprocesses.run(["iptables", "-w", "-t", "nat", action, *nat])
    for direction in ("-i", "-o"):
        rule = ["FORWARD", direction, bridge, *_COMMENT, "-j", "ACCEPT"]
        subprocesses.run(["iptables", "-w", action, *rule])


def _set_sysctl(host: settings.HostSettings, key: str, value: str) -> None:
    file = Path("/proc/sys") / key
    if not file.exists() or (old := file.read_text().strip()) == value:
        return
    with (host.directory / "sysctls").open("a") as record:
        record.write(f"{key} {old}\n")
    file.write_text(value)


def _restore_sysctls(host: settings.HostSettings) -> None:
    record = host.directory / "sysctls"
    for line in record.read_text().splitlines() if record.exists() else []:
        key, _, value = line.partition(" ")
        with contextlib.suppress(OSError):  # the module of the sysctl may be unloaded
            (Path("/proc/sys") / key).write_text(value)
