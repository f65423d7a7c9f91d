"""The names that `python -m bench` takes are those of its modules, and its page lists them."""

from __future__ import annotations

import importlib.util
import itertools
from collections import Counter
from collections.abc import AsyncIterator

import httpx
import pytest

from bench import __main__ as bench
from bench import api, kro, metrics_reader, shares


@pytest.mark.parametrize("name", bench.BENCHES)
def test_each_bench_that_can_be_named_is_a_module(name: str) -> None:
    assert importlib.util.find_spec(f"bench.{name}") is not None


@pytest.mark.parametrize("name", bench.BENCHES)
def test_the_page_of_the_figures_names_each_bench(name: str) -> None:
    assert f"`{name}`" in bench.PAGE.read_text()
    assert f"`{name}`" in bench.HEAD


@pytest.mark.parametrize("arguments", [["control_plane", "--help"], ["-h"]])
def test_help_is_printed_before_anything_is_measured(
    arguments: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["bench", *arguments])
    bench.main()
    assert "python -m bench [NAME]..." in capsys.readouterr().out


def test_a_name_that_no_bench_has_is_refused_before_anything_is_measured(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sys.argv", ["bench", "control_plane", "--instances"])
    with pytest.raises(SystemExit, match="no bench is named '--instances'"):
        bench.main()


def test_the_shares_of_a_burst_name_each_process_and_the_requests_of_a_client() -> None:
    start = shares.Shares({"etcd": 1.0, shares.OPERATOR: 2.0}, Counter())
    requests = Counter(
        {
            (shares.OPERATOR, "create", "cells"): 20,
            (shares.OPERATOR, "patch", "cells/status"): 15,
            (shares.CONTROLLERS, "create", "pods"): 20,
        }
    )
    usage = {"etcd": 1.5, shares.OPERATOR: 3.0, shares.RENDERING: 0.1, "kube-apiserver": 2.0}
    used = shares.Shares(usage, requests).since(start)
    assert shares.cpu_row(used, 10) == ["50", "200", "0", "110", "360"]
    row = shares.request_row(used, 10, shares.OPERATOR)
    assert row == ("3.5", "create cells 2.0, patch cells/status 1.5")


def test_the_page_of_the_figures_has_tables_with_a_short_introduction_and_nothing_else() -> None:
    sections = bench.PAGE.read_text().split("\n## ")[1:]
    assert len(sections) >= 10
    for section in sections:
        blocks = section.strip().split("\n\n")[1:]
        assert blocks[-1].startswith(("|", "![")), blocks[-1]
        for block, following in itertools.pairwise(blocks):
            if not block.startswith(("|", "![", "### ")):
                assert not block.startswith("- "), block
                assert len(block.split()) <= 60, block
                assert following.startswith("|") or "questions." in following, block


def test_a_leaf_of_kais_is_a_template_of_kro_without_what_the_control_plane_wrote() -> None:
    made = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": "warm-0-left",
            "namespace": "bench",
            "labels": {"kais.io/formation": "warm-0"},
            "annotations": {"kais.io/rendered": "1", "deployment.kubernetes.io/revision": "1"},
            "uid": "1",
            "ownerReferences": [{"name": "warm-0"}],
        },
        "spec": {"selector": {"kais.io/cell": "warm-0-left"}, "ports": [], "clusterIP": "10.0.0.1"},
        "status": {"loadBalancer": {}},
    }
    name = "${schema.metadata.name}"
    assert kro.template_of("leaf0", made, "warm-0") == {
        "id": "leaf0",
        "template": {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {
                "name": f"{name}-left",
                "namespace": "${schema.metadata.namespace}",
                "labels": {"kais.io/formation": name},
                "annotations": {"kais.io/rendered": "1"},
            },
            "spec": {"selector": {"kais.io/cell": f"{name}-left"}, "ports": []},
        },
    }


CREATED_CELLS = (shares.OPERATOR, "create", "cells")


def measured(
    rate: str, cpu: str, etcd_s: float, creates: int, restart: list[object]
) -> kro.Measured:
    figures = ["1.0", rate, "9.0", "1.00", "12.3", cpu, "110", "120"]
    requests = Counter({CREATED_CELLS: creates})
    return kro.Measured("kais", 100, figures, shares.Shares({"etcd": etcd_s}, requests), restart)


def test_rounds_of_a_burst_are_their_medians_and_the_range_of_the_rates() -> None:
    rounds = [
        measured("12.5", "40 + 1", 2.0, 200, [100, "0.9", "1,000"]),
        measured("8.1", "61 + 3", 4.0, 203, [100, "2.0", "1,300"]),
        measured("11.0", "45 + 2", 3.0, 201, [100, "1.0", "900"]),
    ]
    median = kro.median_of_rounds(rounds)
    assert (median.name, median.count) == ("kais", 100)
    expected = ["1.0", "11.0", "8.1 - 12.5", "9.0", "1.00", "12.3", "45 + 2", "110", "120"]
    assert median.figures == expected
    assert median.used == shares.Shares({"etcd": 3.0}, Counter({CREATED_CELLS: 201}))
    assert median.restart == ["100", "1.0", "1,000"]


def test_a_single_round_is_its_own_median() -> None:
    one = measured("12.5", "40 + 1", 2.0, 200, [])
    median = kro.median_of_rounds([one])
    assert median.figures[1:3] == ["12.5", "12.5 - 12.5"]
    assert median.used == one.used
    assert list(median.restart) == []


def test_instances_are_spread_over_as_many_namespaces_as_there_are_realms() -> None:
    assert api.namespaces(1) == ("bench",)
    assert api.namespaces(3) == ("bench", "bench-1", "bench-2")
    uses = api.BLUEPRINT_INSTANCES
    assert uses.path == "/apis/kais.io/v1/blueprintinstances"
    assert uses.path_in("bench-1") == "/apis/kais.io/v1/namespaces/bench-1/blueprintinstances"
    assert uses.body("row7", "bench-1")["metadata"] == {"name": "row7", "namespace": "bench-1"}


async def test_events_of_a_watch_are_decoded_line_by_line_over_the_borders_of_chunks() -> None:
    async def chunks() -> AsyncIterator[bytes]:
        for chunk in (b'{"a":', b'1}\n{"b":2}\n{"c"', b":3}\n"):
            yield chunk

    answer = httpx.Response(200, content=chunks())
    assert [line async for line in api.lines(answer)] == [b'{"a":1}', b'{"b":2}', b'{"c":3}']


def test_requests_of_a_verb_are_counted_for_all_resources() -> None:
    requests = Counter(
        {"create pods": 2, "create events": 1, "patch status cells": 4, "patch cells": 3}
    )
    reading = metrics_reader.Reading(requests, Counter(), 0.0, 0.0)
    assert [reading.requests_of(verb) for verb in ("create", "patch", "patch status")] == [3, 3, 4]
