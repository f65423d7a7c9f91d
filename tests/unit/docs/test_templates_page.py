"""The page of the template language: every example renders to the value beside it."""

import itertools
import json
import re
from typing import Any

import pytest
import yaml

from e2e.support import documents
from kais import blueprint_rendering, templates
from kais.resources.blueprint import RESERVED_NAMES, ParameterType
from kais.templates import filters, limits, sandbox

PAGE = documents.ROOT / "docs/reference/templates.md"
TEXT = PAGE.read_text()
OPTIONAL = "extra"


def section(heading: str) -> str:
    return TEXT.split(f"\n## {heading}\n")[1].split("\n## ")[0]


def values() -> dict[str, Any]:
    (block,) = (b for b in documents.blocks(PAGE) if b.text.startswith("# values"))
    in_scope = {
        "blueprint": {"name": "harbour", "revision": 2},
        "instance": {"name": "harbour-7xk2p", "namespace": "demo"},
    }
    parameters: dict[str, Any] = yaml.safe_load(block.text)
    return parameters | in_scope


def examples(text: str) -> list[tuple[str, str, str]]:
    """Return name, expression and value of the rows of all tables with a column Expression."""
    rows = []
    for table in re.findall(r"^\|.* Expression \| Value \|\n\|[-|]+\|\n((?:\|.*\n)+)", text, re.M):
        for line in table.splitlines():
            cells = re.split(r"(?<!\\)\|", line)[1:-1]
            leaf, value = (cell.replace("\\|", "|")[1:-1] for cell in cells[-2:])
            rows.append((cells[0].strip() if len(cells) > 2 else "", leaf[1:-1], value))
    return rows


def rendered(leaf: str) -> str:
    try:
        items = templates.render([leaf], values(), declared=[OPTIONAL])
    except templates.TemplateFailed as exc:
        return f"error: {exc.errors[0].message}"
    return f"`{json.dumps(items[0], ensure_ascii=False)}`" if items else "left out"


@pytest.mark.parametrize(("leaf", "value"), [(leaf, value) for _, leaf, value in examples(TEXT)])
def test_expression_of_the_page_has_the_value_beside_it(leaf: str, value: str) -> None:
    assert rendered(leaf) == value


@pytest.mark.parametrize(
    ("heading", "available"), [("Filters", filters.filters()), ("Tests", filters.tests())]
)
def test_every_filter_and_test_has_an_example_that_uses_it(
    heading: str, available: dict[str, Any]
) -> None:
    names = {name for name in available if name.isidentifier()}
    keyword = r"\|" if heading == "Filters" else "is(?: not)?"
    with_example = set()
    for cell, leaf, _ in examples(section(heading)):
        name = cell.split("`")[1]
        assert re.search(rf"{keyword} {name}\b", leaf), f"the example of {name} does not use it"
        with_example.add(name)
    assert with_example == names


def pairs() -> list[tuple[str, str]]:
    texts = [block.text for block in documents.blocks(PAGE) if block.language == "yaml"]
    return [(a, b) for a, b in itertools.pairwise(texts) if a.startswith("# template")]


@pytest.mark.parametrize(("template", "result"), pairs())
def test_template_of_the_page_gives_the_result_below_it(template: str, result: str) -> None:
    assert result.startswith("# result")
    tree = yaml.safe_load(template)
    assert templates.check(tree, {*values(), OPTIONAL}) == []
    assert templates.render(tree, values(), declared=[OPTIONAL]) == yaml.safe_load(result)


def test_page_has_templates_with_both_directives() -> None:
    directives = {name for template, _ in pairs() for name in ("$if", "$for") if name in template}
    assert directives == {"$if", "$for"}


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("Macros", "{% macro f() %}{% endmacro %}"),
        ("`include`", "{% include 'x' %}"),
        ("`import`", "{% import 'x' as y %}"),
        ("`extends`", "{% extends 'x' %}"),
        ("`block`", "{% block x %}{% endblock %}"),
    ],
)
def test_statement_that_the_page_excludes_is_refused(name: str, source: str) -> None:
    assert name in section("Statements in text")
    (problem,) = templates.check([source], ())
    assert "is not part of the template language" in str(problem)


def test_every_type_of_a_parameter_and_every_name_in_scope_is_described() -> None:
    rows = set(re.findall(r"^\| `(\w+)` \|", section("Types of parameters"), re.M))
    assert rows == {str(kind) for kind in ParameterType}
    assert all(f"`{name}.name`" in section("Names") for name in RESERVED_NAMES)


def test_every_method_is_listed() -> None:
    listed = section("Expressions")
    for methods in sandbox._METHODS.values():
        assert [name for name in methods if f"`{name}`" not in listed] == []


def test_limits_are_those_of_the_code() -> None:
    text = section("Limits")
    rows = (
        f"| output | {limits.OUTPUT_BYTES // 1024} KiB, and {limits.NODES:,} values |",
        f"together | {limits.LOOP_STEPS:,} |",
        f"| items of `range` | {sandbox.RANGE_LIMIT:,} |",
        f"| operations of expressions | {limits.OPERATIONS:,}, ",
        f"{limits.LEAF_CHARACTERS:,} characters, and {limits.LEAF_TOKENS:,} tokens |",
        f"| depth | {limits.DEPTH} levels |",
        f"| whole numbers | {limits.INTEGER_BITS} bits |",
    )
    assert [row for row in rows if row not in text] == []


def test_number_in_a_text_field_is_refused_in_the_words_of_the_page() -> None:
    def compiled(argument: str) -> blueprint_rendering.CompileReport:
        container = {"image": "x", "args": [argument]}
        cell = {"name": "a", "spec": {"mode": "Task", "container": container}}
        parameter = {"name": "count", "type": "integer", "default": 3}
        return blueprint_rendering.compile_blueprint(
            {"parameters": [parameter], "formation": {"cells": [cell]}}
        )

    assert '"must be text"' in section("Numbers in text fields")
    assert "args[0]: must be text, got 3" in compiled("{{ count }}").message
    assert compiled("{{ count | string }}").is_good


def test_optional_parameter_in_if_is_an_error_as_the_page_says() -> None:
    for source, is_good in (("extra", False), ("extra is defined", True)):
        tree = [{"$if": source, "name": "a"}]
        if is_good:
            assert templates.render(tree, {}, declared=[OPTIONAL]) == []
        else:
            with pytest.raises(templates.TemplateFailed, match="'extra' has no value"):
                templates.render(tree, {}, declared=[OPTIONAL])


def test_object_whose_members_are_dropped_stays_and_empty_text_is_a_value() -> None:
    tree = {"a": {"b": "{{ none }}"}, "c": "{{ '' }}"}
    assert templates.render(tree, {}) == {"a": {}, "c": ""}
