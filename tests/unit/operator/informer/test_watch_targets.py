"""What is watched and listed, in the whole cluster or in some namespaces."""

from kais_operator.informer import watch_targets
from kais_operator.informer.list_client import WatchTarget

WATCHED_HERE = len(watch_targets.INSTANCE_KINDS) + len(watch_targets.CHILD_KINDS)
MANAGED_SELECTOR = "app.kubernetes.io/managed-by=kais"


def test_children_are_watched_by_our_label_in_the_whole_cluster() -> None:
    watched = set(watch_targets.child_watches((), operator_namespace="home"))
    assert WatchTarget("Pod", None, MANAGED_SELECTOR) in watched
    assert len(watched) == WATCHED_HERE


def test_instances_and_their_cells_are_watched_whole_and_not_by_kopf_too() -> None:
    watched = set(watch_targets.child_watches((), operator_namespace="home"))
    for kind in ("BlueprintInstance", "Formation", "Cell", "Mission"):
        assert WatchTarget(kind, None) in watched
        assert kind not in watch_targets.KOPF_KINDS
    assert not {target.kind for target in watched} & set(watch_targets.KOPF_KINDS)


def test_every_kind_that_fills_the_cache_is_watched_by_one_of_both() -> None:
    here = {target.kind for target in watch_targets.child_watches((), operator_namespace="home")}
    listed = {target.kind for target in watch_targets.list_targets((), operator_namespace="home")}
    assert listed == here | set(watch_targets.KOPF_KINDS)


def test_accounts_are_watched_whole_because_cells_borrow_those_of_others() -> None:
    watched = set(watch_targets.child_watches((), operator_namespace="home"))
    assert WatchTarget("ServiceAccount", None, "") in watched


def test_the_outbox_is_watched_at_home_in_namespace_mode() -> None:
    watched = list(watch_targets.child_watches(("a", "b"), operator_namespace="home"))
    assert [target for target in watched if target.namespace == "home"] == [
        WatchTarget("ConfigMap", "home", MANAGED_SELECTOR)
    ]
    assert len(watched) == 2 * WATCHED_HERE + 1
    at_home = list(watch_targets.child_watches(("home",), operator_namespace="home"))
    assert len(at_home) == WATCHED_HERE
