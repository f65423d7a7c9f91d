"""What a person can do with clusters: the functions behind `kais cluster …` and `make demo`.

Each takes `say`, which gets a line of progress at a time, and raises ClusterError with a text for
that person. Nothing here reads the terminal.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from kais_cluster import charts, errors, images, providers, settings, subprocesses
from kais_cluster.host import build
from kais_cluster.status import Status


def up(*, no_node: bool = False, report: subprocesses.Reporter = subprocesses.print_line) -> Status:
    """Bring a cluster up, building its binaries first when they are missing or out of date.

    One that is up is used as it is; what an earlier run left behind is stopped. Both are said.

    Raises:
        MissingTools: a program or right is missing.
        StartFailed: a part of it did not come up.
    """
    provider = providers.choose(no_node=no_node, report=report)
    provider.up(no_node=no_node)
    return provider.status()


def down(*, report: subprocesses.Reporter = subprocesses.print_line) -> None:
    """Stop the cluster with a node and the control plane alone, and remove their state."""
    stopped = False
    for no_node in (False, True):
        provider = providers.choose(no_node=no_node, report=report)
        if provider.status().mode != "down":
            stopped = True
        provider.down()
        if provider.name == "kubeconfig":
            return
    if not stopped:
        report("nothing to stop")


def status() -> Status:
    """Observe the cluster with a node, or the control plane alone where there is no node."""
    return current_cluster().status()


def env() -> Mapping[str, str]:
    """Return KUBECONFIG, KUBECACHEDIR and PATH for programs that talk to the cluster.

    Raises:
        NotRunning: there is none.
    """
    provider = current_cluster()
    if provider.status().mode == "down":
        raise errors.NotRunning("no cluster is up: bring one up with `kais cluster up`")
    return provider.env()


def current_cluster(
    *, report: subprocesses.Reporter = subprocesses.print_line
) -> providers.Provider:
    """Return the cluster that commands without further words mean."""
    with_node = providers.choose(report=report)
    if with_node.status().mode != "down":
        return with_node
    control_plane = providers.choose(no_node=True, report=report)
    return control_plane if control_plane.status().mode != "down" else with_node


def build_binaries(
    names: Sequence[str] = (),
    *,
    no_node: bool = False,
    report: subprocesses.Reporter = subprocesses.print_line,
) -> None:
    """Build the pinned binaries: those named, or all that a cluster needs."""
    if names:
        binaries = build.by_name(names)
    elif no_node:
        binaries = build.control_plane_binaries()
    elif providers.choose(report=report).name == "kind":
        binaries = [*build.control_plane_binaries(), *build.by_name(["helm", "kind"])]
    else:
        binaries = build.node_binaries()
    build.build(binaries, settings.binaries_dir(), report=report)


def build_images(*, report: subprocesses.Reporter = subprocesses.print_line) -> list[str]:
    """Build the base image and ours from this checkout; return their names.

    Raises:
        MissingTools: this is no checkout, or a program is missing.
        CommandFailed: a build failed; the text has the end of its output.
    """
    provider = providers.choose(report=report)
    return [
        image.reference for image in images.build_all(images.checkout(), provider, report=report)
    ]


def load_images(*, report: subprocesses.Reporter = subprocesses.print_line) -> list[str]:
    """Load our built images into the cluster; return those that it did not have yet."""
    return images.load_all(images.checkout(), current_cluster(report=report), report=report)


def load_image(
    archive: Path, *, name: str = "", report: subprocesses.Reporter = subprocesses.print_line
) -> None:
    """Load one `docker save` archive into the cluster."""
    current_cluster(report=report).load_image(archive, name=name or archive.name)


def install_charts(
    *,
    values: Mapping[str, object] | None = None,
    report: subprocesses.Reporter = subprocesses.print_line,
) -> None:
    """Install or upgrade kais-crds and kais, and wait until they are ready."""
    charts.install(images.checkout(), current_cluster(report=report), values=values, report=report)


def uninstall(*, report: subprocesses.Reporter = subprocesses.print_line) -> None:
    """Remove the kais release; its CRDs, and so the objects, stay."""
    charts.uninstall(current_cluster(report=report), report=report)
