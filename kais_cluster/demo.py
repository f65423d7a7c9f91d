"""`make demo` and `make demo-down`: create everything that the demo needs, or remove it.

python -m kais_cluster.demo up      binaries, cluster, images, charts; each step reports its time
python -m kais_cluster.demo next    how to reach the cluster, what to look at, how to remove it
python -m kais_cluster.demo down    cluster, images, state and network; the binaries stay
"""

import contextlib
import sys
import time
from collections.abc import Mapping, Sequence

from kais_cluster import (
    charts,
    errors,
    image_catalog,
    operations,
    providers,
    settings,
    subprocesses,
)


def prepare(
    *,
    values: Mapping[str, object] | None = None,
    report: subprocesses.Reporter = subprocesses.print_line,
) -> providers.Provider:
    """Start a cluster with our images and charts in it, reusing what exists.

    A cluster that KAIS_E2E_KUBECONFIG names gets only the charts: its owner provides its images.

    Raises:
        ClusterError: A step failed; the message says which and why.
    """
    source = image_catalog.checkout()
    provider = providers.choose(report=report)
    provider.up(no_node=False)
    changed: list[str] = []
    if provider.name != "kubeconfig":
        image_catalog.build_all(source, provider, report=report)
        changed = image_catalog.load_all(source, provider, report=report)
    charts.install(source, provider, values=values, restart=bool(changed), report=report)
    return provider


def remove(*, report: subprocesses.Reporter = subprocesses.print_line) -> None:
    """Remove what `prepare` created, except the cached binaries."""
    operations.down(report=report)
    image_catalog.remove_all(report=report)
    with contextlib.suppress(OSError):  # the file is missing, or contains something else
        settings.images_dir().parent.rmdir()
    binaries = settings.binaries_dir()
    if binaries.exists():
        report(f"kept the binaries in {binaries}; delete that folder to rebuild them")


def next_steps(kubeconfig: str) -> list[str]:
    """Return the last lines of `make demo`: how to reach the cluster and how to remove it."""
    return [
        "",
        f"The cluster runs; its kubeconfig is {kubeconfig}. In this shell, from this folder:",
        '  eval "$(.venv/bin/kais cluster env)"   # sets KUBECONFIG; adds kubectl and helm',
        '  export PATH="$PWD/.venv/bin:$PATH"     # adds kais',
        "Look at what the two runs left:",
        "  kais doctor -n demo",
        "  kubectl get missions,blueprints,knowledgescopes -n demo",
        "  kais knowledge list --scope namespace-doctor -n demo",
        "Write your own team: docs/tutorial.md. Load your own image: kais cluster load IMAGE",
        "Remove cluster, images and state: make demo-down",
    ]


def main(argv: Sequence[str]) -> int:
    """Run `up` or `down` and return the exit status."""
    started = time.monotonic()
    try:
        if argv == ["up"]:
            prepare()
        elif argv == ["next"]:
            for line in next_steps(operations.env()["KUBECONFIG"]):
                subprocesses.print_line(line)
            return 0
        elif argv == ["down"]:
            remove()
        else:
            subprocesses.print_line("usage: python -m kais_cluster.demo up|next|down")
            return 2
    except errors.ClusterError as exc:
        subprocesses.print_line(f"demo {argv[0]}: {exc}")
        return 1
    subprocesses.print_line(f"demo {argv[0]}: done in {time.monotonic() - started:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
