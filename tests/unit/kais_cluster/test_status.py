from pathlib import Path

from kais_cluster.status import ProcessStatus, Status


def test_cluster_is_up_while_it_answers_and_all_processes_run():
    processes = (ProcessStatus("etcd", 12),)
    assert Status("host", "node", answers=True, processes=processes).is_up
    assert not Status("host", "node", answers=False, processes=processes).is_up
    ended = (*processes, ProcessStatus("kubelet", None))
    assert not Status("host", "node", answers=True, processes=ended).is_up


def test_status_names_each_process_and_the_nodes():
    status = Status(
        "host",
        "node",
        answers=True,
        directory=Path("/s"),
        processes=(ProcessStatus("etcd", 12), ProcessStatus("kubelet", None)),
        nodes="NAME\nkais-node",
    )
    assert status.lines() == [
        "host cluster, mode: node, state: /s",
        "etcd                       running, pid 12",
        "kubelet                    STOPPED",
        "NAME",
        "kais-node",
    ]


def test_cluster_that_is_down_says_where_it_would_be():
    assert Status("host", "down", answers=False, directory=Path("/s")).lines() == ["down (/s)"]
