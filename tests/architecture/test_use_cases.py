"""Routes translate and use cases act: no route calls the store.

An import contract keeps the ports away from routes. The store itself reaches them inside of
`Services`, so that they can hand it on; whatever else they do with it is found here.
"""

import ast
from pathlib import Path

import pytest

SERVICE = Path(__file__).parents[2] / "knowledge_service"
MODULES = sorted((*SERVICE.glob("routes/*.py"), *SERVICE.glob("mcp_endpoint/*.py")))


def store_uses(source: str) -> list[str]:
    """Return what a module does with a store, except passing it to a function as an argument."""
    tree = ast.parse(source)
    passed: set[ast.AST] = set()
    for call in ast.walk(tree):
        if isinstance(call, ast.Call):
            passed |= {*call.args, *(keyword.value for keyword in call.keywords)}
    return [
        f"line {node.lineno}: {ast.unparse(node)}"
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and node.attr == "store" and node not in passed
    ]


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_no_route_calls_the_store(path: Path) -> None:
    assert store_uses(path.read_text()) == []


@pytest.mark.parametrize(
    "planted",
    {
        "a call": "services.store.list_facts(listing)",
        "a call of a request's services": "offload.services.store.check()",
        "a call inside of an argument": "page(services.store.list_facts(listing))",
        "a call by another name": "store = services.store\nstore.list_facts(listing)",
        "a method that is passed on": "run(services.store.check)",
        "a result": "def store_of(services):\n    return services.store",
    }.items(),
    ids=lambda case: case[0],
)
def test_a_route_that_calls_the_store_is_found(planted: tuple[str, str]) -> None:
    assert store_uses(planted[1])


def test_a_store_may_be_passed_to_a_use_case() -> None:
    assert store_uses("facts.list_facts(services.store, principal, store=offload.store)") == []
