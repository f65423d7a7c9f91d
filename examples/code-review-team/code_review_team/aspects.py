"""The checks of each aspect: they read the syntax tree of a Python file, without a model.

An aspect is a function from a file to findings; `ASPECTS` names them.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping

from code_review_team.findings import MINOR, SERIOUS, Finding, SourceFile

_LONG = 40  # lines of a function that still fit on one screen
_RUNS_TEXT = frozenset({"eval", "exec"})
_SECRETS = ("password", "secret", "token", "api_key")
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)

Reader = Callable[[SourceFile, ast.Module], Iterator[Finding]]


def review(aspect: str, source: SourceFile) -> list[Finding]:
    """Check one file; a file that does not parse is a finding.

    Raises:
        KeyError: there is no such aspect.
    """
    reader = ASPECTS[aspect]
    try:
        tree = ast.parse(source.text)
    except (SyntaxError, ValueError, RecursionError) as exc:
        line = getattr(exc, "lineno", 0) or 0
        message = f"does not parse: {exc}"
        return [Finding(aspect, "syntax", source.path, line, SERIOUS, message)]
    return sorted(reader(source, tree), key=lambda finding: (finding.line, finding.rule))


def style(source: SourceFile, tree: ast.Module) -> Iterator[Finding]:
    """Yield star imports, mutable defaults, long functions and missing docstrings."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and any(name.name == "*" for name in node.names):
            message = f"imports everything from {node.module}; name what is used"
            yield Finding("style", "star-import", source.path, node.lineno, MINOR, message)
        if not isinstance(node, _FUNCTIONS):
            continue
        for default in [*node.args.defaults, *filter(None, node.args.kw_defaults)]:
            if isinstance(default, ast.List | ast.Dict | ast.Set):
                message = f"{node.name} shares one default object between calls; use None"
                yield Finding(
                    "style", "mutable-default", source.path, node.lineno, SERIOUS, message
                )
        length = (node.end_lineno or node.lineno) - node.lineno + 1
        if length > _LONG:
            message = f"{node.name} has {length} lines; split it by question"
            yield Finding("style", "long-function", source.path, node.lineno, MINOR, message)
        if not node.name.startswith("_") and ast.get_docstring(node) is None:
            message = f"{node.name} has no docstring"
            yield Finding("style", "no-docstring", source.path, node.lineno, MINOR, message)


def safety(source: SourceFile, tree: ast.Module) -> Iterator[Finding]:
    """Yield calls of `eval` and of shells, swallowed errors, and secrets in the source."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            yield from _unsafe_call(source, node)
        elif isinstance(node, ast.ExceptHandler) and _swallows_error(node):
            message = "an error vanishes here; say what failed or let it rise"
            yield Finding("safety", "error-vanishes", source.path, node.lineno, SERIOUS, message)
        elif isinstance(node, ast.Assign) and _is_text(node.value):
            for target in node.targets:
                name = target.id if isinstance(target, ast.Name) else ""
                if any(marker in name.lower() for marker in _SECRETS):
                    message = f"{name} holds a secret in the source; read it from a mounted file"
                    yield Finding("safety", "secret", source.path, node.lineno, SERIOUS, message)


def tests(source: SourceFile, tree: ast.Module) -> Iterator[Finding]:
    """Yield tests that cannot fail."""
    is_test = source.path.rpartition("/")[2].startswith("test_")
    for node in ast.walk(tree):
        if not (is_test and isinstance(node, _FUNCTIONS) and node.name.startswith("test")):
            continue
        if not any(isinstance(child, ast.Assert | ast.With) for child in ast.walk(node)):
            message = f"{node.name} asserts nothing, so it cannot fail"
            yield Finding("tests", "no-assert", source.path, node.lineno, SERIOUS, message)


ASPECTS: Mapping[str, Reader] = {"style": style, "safety": safety, "tests": tests}


def _unsafe_call(source: SourceFile, node: ast.Call) -> Iterator[Finding]:
    if isinstance(node.func, ast.Name) and node.func.id in _RUNS_TEXT:
        message = f"{node.func.id} runs whatever text it is given; parse the text instead"
        yield Finding("safety", "runs-text", source.path, node.lineno, SERIOUS, message)
    for keyword in node.keywords:
        is_true = isinstance(keyword.value, ast.Constant) and keyword.value.value is True
        if keyword.arg == "shell" and is_true:
            message = "a shell reads the command; pass a list of arguments"
            yield Finding("safety", "shell", source.path, node.lineno, SERIOUS, message)


def _swallows_error(handler: ast.ExceptHandler) -> bool:
    return all(isinstance(child, ast.Pass) for child in handler.body)


def _is_text(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and isinstance(value.value, str) and bool(value.value)
