"""Install our charts with the provider's own Helm, called by path."""

import json
import time
from collections.abc import Mapping, Sequence

from kais_cluster import errors, images, providers, tools

NAMESPACE = "kais-system"
CRDS_RELEASE, RELEASE = "kais-crds", "kais"

_HELM_FOLDERS = ("CACHE", "CONFIG", "DATA")
_WAIT = "180s"  # a cold node starts our pods in 20 s; the rest is for a busy machine


def install(
    source: images.Checkout,
    provider: providers.Provider,
    *,
    values: Mapping[str, object] | None = None,
    restart: bool = False,
    say: tools.Say = tools.say,
) -> None:
    """Install or upgrade both charts and wait until everything in them is ready.

    With `restart`, workloads that were there before get new pods: for images whose content changed
    under the same name.

    Raises:
        CommandFailed: Helm gave up; the text tells the state of the pods.
    """
    started = time.monotonic()
    was_there = RELEASE in releases(provider)
    _upgrade(source, provider, CRDS_RELEASE, {})
    _upgrade(source, provider, RELEASE, values or {})
    if restart and was_there:
        _restart(provider)
    say(f"charts {CRDS_RELEASE} and {RELEASE} are ready in {time.monotonic() - started:.0f} s")


def uninstall(provider: providers.Provider, *, say: tools.Say = tools.say) -> None:
    """Remove the kais release and wait for its pods; CRDs and objects stay."""
    if RELEASE not in releases(provider):
        say(f"there is no release {RELEASE} in {NAMESPACE}")
        return
    _helm(provider, ["uninstall", RELEASE, "--namespace", NAMESPACE, "--wait"])
    say(f"removed the release {RELEASE}; its CRDs and your objects stay")


def releases(provider: providers.Provider) -> list[str]:
    """List the releases in our namespace."""
    listing = _helm(provider, ["list", "--namespace", NAMESPACE, "--all", "--output", "json"])
    return [str(release["name"]) for release in json.loads(listing)]


def _upgrade(
    source: images.Checkout,
    provider: providers.Provider,
    release: str,
    values: Mapping[str, object],
) -> None:
    chart = source.root / "charts" / release
    command = ["upgrade", "--install", release, chart, "--namespace", NAMESPACE]
    command += ["--create-namespace", "--values", "-", "--wait", "--timeout", _WAIT]
    try:
        _helm(provider, command, stdin=json.dumps(values))
    except errors.CommandFailed as exc:
        pods = tools.last_lines(provider.kubectl("get", "pods", "-n", NAMESPACE))
        message = f"chart {release} did not become ready: {exc}\nits pods:\n{pods}"
        raise errors.CommandFailed(message) from exc


def _restart(provider: providers.Provider) -> None:
    kinds = "deployment,statefulset"
    provider.kubectl("rollout", "restart", kinds, "-n", NAMESPACE)
    names = provider.kubectl("get", kinds, "-n", NAMESPACE, "-o", "name").split()
    for name in names:
        wait = ("rollout", "status", name, "-n", NAMESPACE, f"--timeout={_WAIT}")
        provider.kubectl(*wait, timeout_s=240)


def _helm(
    provider: providers.Provider, arguments: Sequence[object], *, stdin: str | None = None
) -> str:
    """Run our Helm with folders of its own, so that a user's plugins and repositories stay out."""
    folder = provider.binaries.parent / "helm"
    homes = {f"HELM_{kind}_HOME": str(folder / kind.lower()) for kind in _HELM_FOLDERS}
    command: list[object] = [provider.binaries / "helm", *arguments]
    return tools.run(command, env={**provider.env(), **homes}, stdin=stdin, timeout_s=300)
