"""`make demo` and `make demo-down`: everything the main job needs, and its removal.

python -m kais_cluster.demo up      binaries, cluster, images, charts; each step says its time
python -m kais_cluster.demo down    cluster, images, state and network; the binaries stay
"""

import contextlib
import sys
import time
from collections.abc import Mapping, Sequence

from kais_cluster import charts, clusters, errors, images, providers, settings, tools


def prepare(
    *, values: Mapping[str, object] | None = None, say: tools.Say = tools.say
) -> providers.Provider:
    """Bring up a cluster with our images and charts in it, reusing what is there.

    A cluster that KAIS_E2E_KUBECONFIG names gets the charts only: its images are its owner's.

    Raises:
        ClusterError: a step failed; the message says which and why.
    """
    source = images.checkout()
    provider = providers.choose(say=say)
    provider.up(no_node=False)
    changed: list[str] = []
    if provider.name != "kubeconfig":
        images.build_all(source, provider, say=say)
        changed = images.load_all(source, provider, say=say)
    charts.install(source, provider, values=values, restart=bool(changed), say=say)
    return provider


def remove(*, say: tools.Say = tools.say) -> None:
    """Remove what `prepare` made, but for the cached binaries."""
    clusters.down(say=say)
    images.remove_all(say=say)
    with contextlib.suppress(OSError):  # it is missing, or holds something else
        settings.images_dir().parent.rmdir()
    binaries = settings.binaries_dir()
    if binaries.exists():
        say(f"kept the binaries in {binaries}: delete that folder to build them anew")


def main(argv: Sequence[str]) -> int:
    """Run `up` or `down` and return the exit status."""
    started = time.monotonic()
    try:
        if argv == ["up"]:
            prepare()
        elif argv == ["down"]:
            remove()
        else:
            tools.say("usage: python -m kais_cluster.demo up|down")
            return 2
    except errors.ClusterError as exc:
        tools.say(f"demo {argv[0]}: {exc}")
        return 1
    tools.say(f"demo {argv[0]}: done in {time.monotonic() - started:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
