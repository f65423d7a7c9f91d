"""The name of the ranker in receipts: another one whenever a weight or a table is another."""

from __future__ import annotations

import ast
import inspect
import pkgutil
import re
import subprocess
import sys
from types import ModuleType
from typing import Any

import pytest

from knowledge_service import search
from knowledge_service.search import ranker_version, thesaurus
from knowledge_service.search.ranking import ranking

# They keep and find postings, and never decide what a score is. The analyser has its own version.
STORAGE = {
    "postings.bisection", "postings.cache", "postings.documents", "postings.hash_index",
    "postings.merge_policy", "postings.index_rows", "postings.posting_lists", "postings.reader",
    "postings.scope_layout",
    "postings.segment", "postings.segment_codec", "ranker_version",
    "text.analyser", "text.batch_analysis", "text.term_ids", "text.trigrams",
}  # fmt: skip
CONSTANTS = [
    pytest.param(module, name, value, id=f"{module.__name__.rpartition('.')[2]}.{name}")
    for module, name, value in ranker_version.constants()
]


def another(value: Any) -> Any:
    if isinstance(value, re.Pattern):
        return re.compile(value.pattern + "x", value.flags)
    if isinstance(value, int | float):
        return value + 1
    if isinstance(value, str):
        return value + "x"
    if isinstance(value, dict):
        return {**value, "x": 1}
    return type(value)([*value, "x"])


@pytest.mark.parametrize(("module", "name", "value"), CONSTANTS)
def test_changing_any_weight_or_table_changes_the_name(
    monkeypatch: pytest.MonkeyPatch, module: ModuleType, name: str, value: Any
) -> None:
    monkeypatch.setattr(module, name, another(value))
    assert ranker_version.identity() != ranker_version.RANKER


def test_weights_that_change_places_change_the_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranking, "NEIGHBOUR_WEIGHTS", ranking.NEIGHBOUR_WEIGHTS[::-1])
    assert ranker_version.identity() != ranker_version.RANKER


def test_a_renamed_constant_keeps_the_name(monkeypatch: pytest.MonkeyPatch) -> None:
    renamed = [
        (module, f"{name}_RENAMED", value) for module, name, value in ranker_version.constants()
    ]
    monkeypatch.setattr(ranker_version, "constants", lambda: iter(renamed))
    assert ranker_version.identity() == ranker_version.RANKER


def test_two_constants_that_swap_their_values_change_the_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (first, *middle, last) = ranker_version.constants()
    monkeypatch.setattr(ranker_version, "constants", lambda: iter([last, *middle, first]))
    assert ranker_version.identity() != ranker_version.RANKER


def test_name_says_the_formula_and_what_it_was_made_of() -> None:
    assert re.fullmatch(r"learned-7-[0-9a-f]{12}", ranker_version.RANKER)
    assert {id(thesaurus), id(ranking)} <= {id(module) for module in ranker_version.MODULES}


def test_name_is_the_same_in_every_process() -> None:
    code = "from knowledge_service.search import ranker_version; print(ranker_version.RANKER)"
    for seed in ("1", "2"):
        process = subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)},
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        assert process.stdout.strip() == ranker_version.RANKER


def test_every_module_of_the_index_is_a_part_of_the_name_or_of_the_storage() -> None:
    prefix = search.__name__ + "."
    names = {
        module.name.removeprefix(prefix)
        for module in pkgutil.walk_packages(search.__path__, prefix)
        if not module.ispkg or module.name == thesaurus.__name__
    }
    named_names = {
        module.__name__.removeprefix(prefix)
        for module in ranker_version.MODULES
        if module.__name__.startswith(prefix)
    }
    assert named_names | STORAGE == names
    assert not named_names & STORAGE


@pytest.mark.parametrize("module", ranker_version.MODULES, ids=lambda module: module.__name__)
def test_no_weight_stands_where_the_name_does_not_see_it(module: ModuleType) -> None:
    harmless = {0.0, 1.0, 0.5, 1e-9}  # nothing, all, the half of BM25's formula, no division by 0
    inside = [
        f"line {number.lineno}: {number.value}"
        for function in ast.walk(ast.parse(inspect.getsource(module)))
        if isinstance(function, ast.FunctionDef)
        for number in ast.walk(function)
        if isinstance(number, ast.Constant)
        and isinstance(number.value, float)
        and number.value not in harmless
    ]
    assert inside == []
