"""Install our charts with the provider's Helm, called by path."""

import contextlib
import json
import time
from collections.abc import Mapping, Sequence

from kais_cluster import errors, image_catalog, providers, subprocesses

NAMESPACE = "kais-system"
CRDS_RELEASE, RELEASE = "kais-crds", "kais"

_HELM_FOLDERS = ("CACHE", "CONFIG", "DATA")
_CLUSTER_DEFAULTS: Mapping[str, Mapping[str, object]] = {
    "operator": {"replicas": 1},
    "agents": {"prices": {"openai/scripted": {"input": "1", "output": "4"}}},
}
_WAIT = "180s"  # a cold node starts our pods in 20 s; the rest is for a busy machine


def install(
    source: image_catalog.Checkout,
    provider: providers.Provider,
    *,
    values: Mapping[str, object] | None = None,
    restart: bool = False,
    report: subprocesses.Reporter = subprocesses.print_line,
) -> None:
    """Install or upgrade both charts and wait until all their objects are ready.

    Unless `values` contains them, one operator runs instead of the chart's two, and the scripted
    model of the examples has a price.

    With `restart`, the pods of an installed release are replaced. Use it for images whose content
    changed under the same name.

    Raises:
        CommandFailed: Helm failed; the message contains the state of the pods.
    """
    started = time.monotonic()
    _clear_pending_releases(provider, report=report)
    if restart and RELEASE in releases(provider):
        # Deleted, not rolled: a StatefulSet would wait forever for a broken pod.
        provider.kubectl("delete", "pods", "--all", "-n", NAMESPACE, timeout_s=120)
    _upgrade(source, provider, CRDS_RELEASE, {})
    _upgrade(source, provider, RELEASE, with_cluster_defaults(values or {}))
    report(f"charts {CRDS_RELEASE} and {RELEASE} are ready in {time.monotonic() - started:.0f} s")


def with_cluster_defaults(values: Mapping[str, object]) -> dict[str, object]:
    """Return the values with the defaults of our clusters, which have one small node."""
    merged = dict(values)
    for section, defaults in _CLUSTER_DEFAULTS.items():
        overrides = values.get(section)
        merged[section] = {**defaults, **(overrides if isinstance(overrides, Mapping) else {})}
    return merged


def uninstall(
    provider: providers.Provider, *, report: subprocesses.Reporter = subprocesses.print_line
) -> None:
    """Remove the kais release and wait until its pods are gone; keeps CRDs and objects."""
    if RELEASE not in releases(provider):
        report(f"there is no release {RELEASE} in {NAMESPACE}")
        return
    _helm(provider, ["uninstall", RELEASE, "--namespace", NAMESPACE, "--wait"])
    report(f"removed the release {RELEASE}; its CRDs and your objects stay")


def releases(provider: providers.Provider) -> dict[str, str]:
    """Return the releases in our namespace, each with its Helm status."""
    listing = _helm(provider, ["list", "--namespace", NAMESPACE, "--output", "json"])
    return {str(release["name"]): str(release["status"]) for release in json.loads(listing)}


def _clear_pending_releases(provider: providers.Provider, *, report: subprocesses.Reporter) -> None:
    """Undo what an interrupted Helm left pending; Helm would refuse to continue."""
    for release, state in releases(provider).items():
        if not state.startswith("pending-"):
            continue
        report(f"release {release} was left in {state} by an earlier run: taking that back")
        action = "uninstall" if state == "pending-install" else "rollback"
        _helm(provider, [action, release, "--namespace", NAMESPACE])


def _upgrade(
    source: image_catalog.Checkout,
    provider: providers.Provider,
    release: str,
    values: Mapping[str, object],
) -> None:
    chart = source.root / "charts" / release
    command = ["upgrade", "--install", release, chart, "--namespace", NAMESPACE]
    # Without the reset, Helm reuses the earlier values when none are passed.
    command += ["--create-namespace", "--reset-values", "--values", "-"]
    command += ["--wait", "--timeout", _WAIT]
    try:
        _helm(provider, command, stdin=json.dumps(values))
    except errors.CommandFailed as exc:
        message = f"chart {release} did not become ready: {exc}\nits pods:\n{_pod_report(provider)}"
        raise errors.CommandFailed(message) from exc


def _pod_report(provider: providers.Provider) -> str:
    """Format the pods of our namespace, with the last log lines of those that are not ready."""
    texts = [provider.kubectl("get", "pods", "-n", NAMESPACE)]
    items = json.loads(provider.kubectl("get", "pods", "-n", NAMESPACE, "-o", "json"))["items"]
    for pod in items:
        statuses = pod["status"].get("containerStatuses", [])
        if statuses and all(status["ready"] for status in statuses):
            continue
        name = pod["metadata"]["name"]
        with contextlib.suppress(errors.CommandFailed):  # the pod has not started yet
            log = provider.kubectl("logs", name, "-n", NAMESPACE, "--tail=5", "--all-containers")
            texts.append(f"{name} wrote:\n{log}")
    return subprocesses.last_lines("\n".join(texts), 40)


def _helm(
    provider: providers.Provider, arguments: Sequence[object], *, stdin: str | None = None
) -> str:
    """Run our Helm with separate folders, so that it ignores a user's plugins and repositories."""
    folder = provider.binaries.parent / "helm"
    homes = {f"HELM_{kind}_HOME": str(folder / kind.lower()) for kind in _HELM_FOLDERS}
    command: list[object] = [provider.binaries / "helm", *arguments]
    return subprocesses.run(command, env={**provider.env(), **homes}, stdin=stdin, timeout_s=300)
