"""What is watched and listed, in the whole cluster or in some namespaces."""

from kais_operator.informer import watch_targets
from kais_operator.informer.list_client import WatchTarget

MANAGED_SELECTOR = "app.kubernetes.io/managed-by=kais"


def test_children_are_watched_by_our_label_in_the_whole_cluster() -> None:
    watched = set(watch_targets.child_watches((), operator_namespace="home"))
    assert WatchTarget("Pod", None, MANAGED_SELECTOR) in watched
    assert len(watched) == len(watch_targets.CHILD_KINDS)


def test_accounts_are_watched_whole_because_cells_borrow_those_of_others() -> None:
    watched = set(watch_targets.child_watches((), operator_namespace="home"))
    assert WatchTarget("ServiceAccount", None, "") in watched


def test_the_outbox_is_watched_at_home_in_namespace_mode() -> None:
    watched = list(watch_targets.child_watches(("a", "b"), operator_namespace="home"))
    assert [target for target in watched if target.namespace == "home"] == [
        WatchTarget("ConfigMap", "home", MANAGED_SELECTOR)
    ]
    assert len(watched) == 2 * len(watch_targets.CHILD_KINDS) + 1
    at_home = list(watch_targets.child_watches(("home",), operator_namespace="home"))
    assert len(at_home) == len(watch_targets.CHILD_KINDS)
