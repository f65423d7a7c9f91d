import ast
import builtins
import re
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = (
    *("kais", "kais_cli", "kais_cluster", "kais_mcp", "kais_rendering"),
    *("agent_runtime", "knowledge_client", "knowledge_service", "operator"),
)
# snake_case, CamelCase and dotted names; a single lower-case word may be any value.
IDENTIFIER = re.compile(r"`(?=[A-Za-z_]\w*)((?:\w*_\w|\w*[A-Z]|\w+\.\w)[\w.]*)(?:\(\))?`")
RAISED = re.compile(r"^\s+([A-Z]\w+(?:, [A-Z]\w+)*):", re.MULTILINE)
FOREIGN = {
    *("E1234", "GPU", "GPUs", "session_3", "snake_case"),  # examples of texts
    *("graph_id", "missionResult", "mission_result", "session_id"),  # sent by clients
    *("aio", "leaderelection", "limitBytes", "MAX_ARG_STRLEN"),  # of Kubernetes and Linux
}


class Names(NamedTuple):
    docstrings: list[tuple[str, str]]
    code: set[str]
    values: set[str]


@pytest.fixture(scope="module")
def names():
    names = Names([], set(dir(builtins)), set())
    for path in sorted(path for folder in PACKAGES for path in (ROOT / folder).rglob("*.py")):
        relative = path.relative_to(ROOT)
        names.code.update(relative.with_suffix("").parts)
        collect(ast.parse(path.read_text()), str(relative), names)
    return names


def collect(tree: ast.Module, path: str, names: Names) -> None:
    prose = set()
    for node in ast.walk(tree):  # a statement comes before the expression in it
        match node:
            case ast.Expr(value=ast.Constant(value=str(text)) as constant):
                prose.add(id(constant))
                names.docstrings.append((f"{path}:{node.lineno}", text))
            case ast.Constant(value=str(text)) if id(node) not in prose:
                names.values.update(re.findall(r"\w+", text))
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.arg(arg=name):
                names.code.add(name)
            case (
                ast.ClassDef(name=name)
                | ast.FunctionDef(name=name)
                | ast.AsyncFunctionDef(name=name)
            ):
                names.code.add(name)
            case ast.alias(name=name):
                names.code.update(name.split("."))
            case ast.keyword(arg=str(name)):
                names.code.add(name)


def test_each_identifier_in_a_docstring_exists(names):
    existing = names.code | names.values | FOREIGN
    missing = [
        f"{location}: `{identifier}`"
        for location, text in names.docstrings
        for identifier in IDENTIFIER.findall(text)
        if not existing.issuperset(identifier.split("."))
    ]
    assert missing == []


def test_each_exception_that_a_docstring_says_is_raised_exists(names):
    missing = [
        f"{location}: {exception}"
        for location, text in names.docstrings
        for exceptions in RAISED.findall(text.partition("Raises:")[2])
        for exception in exceptions.split(", ")
        if exception not in names.code
    ]
    assert missing == []
