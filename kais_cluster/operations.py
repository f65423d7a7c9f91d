"""The operations on clusters behind `kais cluster …` and `make demo`.

Each takes `report`, which is called with one line of progress at a time, and raises ClusterError
with a message for the user. No function reads from the terminal.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from kais_cluster import (
    charts,
    errors,
    image_archives,
    image_catalog,
    providers,
    settings,
    subprocesses,
)
from kais_cluster.host import component_builds
from kais_cluster.status import Status


def up(*, no_node: bool = False, report: subprocesses.Reporter = subprocesses.print_line) -> Status:
    """Start a cluster; builds missing or outdated binaries first.

    A running cluster is used as it is, and what an earlier run left behind is stopped. Both are
    reported.

    Raises:
        MissingTools: A program or permission is missing.
        StartFailed: A part of the cluster did not start.
    """
    provider = providers.choose(no_node=no_node, report=report)
    provider.up(no_node=no_node)
    return provider.status()


def down(*, report: subprocesses.Reporter = subprocesses.print_line) -> None:
    """Stop the cluster with a node and the one without, and remove their state."""
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
    """Return the status of the cluster with a node, or of the control plane if there is no node."""
    return current_cluster().status()


def env() -> Mapping[str, str]:
    """Return KUBECONFIG, KUBECACHEDIR and PATH for clients of the cluster.

    Raises:
        NotRunning: There is no cluster.
    """
    provider = current_cluster()
    if provider.status().mode == "down":
        raise errors.NotRunning("no cluster is up: bring one up with `kais cluster up`")
    return provider.env()


def current_cluster(
    *, report: subprocesses.Reporter = subprocesses.print_line
) -> providers.Provider:
    """Return the cluster that commands use by default: one with a node before one without."""
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
    """Build the named pinned binaries, or all that a cluster needs."""
    if names:
        binaries = component_builds.by_name(names)
    elif no_node:
        binaries = component_builds.control_plane_binaries()
    elif providers.choose(report=report).name == "kind":
        binaries = [
            *component_builds.control_plane_binaries(),
            *component_builds.by_name(["helm", "kind"]),
        ]
    else:
        binaries = component_builds.node_binaries()
    component_builds.build(binaries, settings.binaries_dir(), report=report)


def build_images(*, report: subprocesses.Reporter = subprocesses.print_line) -> list[str]:
    """Build the base image and our images from this checkout; return their names.

    Raises:
        MissingTools: There is no checkout, or a program is missing.
        CommandFailed: A build failed; the message contains the end of its output.
    """
    provider = providers.choose(report=report)
    return [
        image.reference
        for image in image_catalog.build_all(image_catalog.checkout(), provider, report=report)
    ]


def load_images(*, report: subprocesses.Reporter = subprocesses.print_line) -> list[str]:
    """Load our built images into the cluster; return those whose content was new."""
    return image_catalog.load_all(
        image_catalog.checkout(), current_cluster(report=report), report=report
    )


def load_image(
    archive: Path, *, name: str = "", report: subprocesses.Reporter = subprocesses.print_line
) -> None:
    """Load one `docker save` archive into the cluster."""
    current_cluster(report=report).load_image(archive, name=name or archive.name)


def load_named_image(
    image: str, *, report: subprocesses.Reporter = subprocesses.print_line
) -> None:
    """Load an image of Docker, Podman or buildah, or a `docker save` archive, into the cluster.

    Raises:
        ClusterError: There is no such image, or the cluster does not accept images.
    """
    provider = current_cluster(report=report)
    if provider.status().mode == "down":
        raise errors.NotRunning("no cluster is up: bring one up with `kais cluster up`")
    with image_archives.archive_of(image) as archive:
        provider.load_image(archive, name=image)
    report(f"loaded {image}")
    if image_archives.is_latest(image):
        report(
            "Kubernetes asks the registry for the tag `latest` at each start: give the image"
            " another tag, such as :1, and load it again"
        )


def install_charts(
    *,
    values: Mapping[str, object] | None = None,
    report: subprocesses.Reporter = subprocesses.print_line,
) -> None:
    """Install or upgrade kais-crds and kais, and wait until they are ready."""
    charts.install(
        image_catalog.checkout(), current_cluster(report=report), values=values, report=report
    )


def uninstall(*, report: subprocesses.Reporter = subprocesses.print_line) -> None:
    """Remove the kais release; its CRDs, and therefore the objects, stay."""
    charts.uninstall(current_cluster(report=report), report=report)
