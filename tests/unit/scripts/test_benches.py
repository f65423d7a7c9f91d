"""The names that `python -m bench` takes are those of its modules, and its page lists them."""

from __future__ import annotations

import importlib.util

import pytest

from bench import __main__ as bench


@pytest.mark.parametrize("name", bench.BENCHES)
def test_each_bench_that_can_be_named_is_a_module(name: str) -> None:
    assert importlib.util.find_spec(f"bench.{name}") is not None


@pytest.mark.parametrize("name", bench.BENCHES)
def test_the_page_of_the_figures_names_each_bench(name: str) -> None:
    assert f"`{name}`" in bench.PAGE.read_text()
    assert f"`{name}`" in bench.HEAD
