"""Collects every name that is stored or sent, for `data/wire_names.yaml`.

    python -m tests.contract.compatibility.wire_names

adds to the file what is new and takes nothing away. A name that was in a release stays until a
reader of it exists: then take its line out by hand, together with a line in CHANGELOG.md.
"""

from __future__ import annotations

import ast
import asyncio
import re
import tempfile
import tomllib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import apsw
import typer
import yaml
from prometheus_client import CollectorRegistry

from kais import labels
from kais.conditions import ConditionType
from kais.reasons import Reason
from kais_cli.exit_status import ExitStatus
from kais_operator.manager.metrics import Metrics as OperatorMetrics
from knowledge_client.error_codes import ErrorCode
from knowledge_service.asgi_app import create_app
from knowledge_service.event_log import replay
from knowledge_service.metrics import Metrics as ServiceMetrics
from knowledge_service.store.sqlite import projections
from knowledge_service.store.sqlite.event_table import SqliteEventTable
from knowledge_service.store.sqlite.store import SqliteStore
from scripts import cli_reference
from tests.contract.compatibility import record_store
from tests.contract.compatibility.serving import DATA
from tests.fakes.identity import NamedCallers

FILE = DATA / "wire_names.yaml"
ROOT = Path(__file__).parents[3]
PACKAGES = (
    *("agent_runtime", "kais", "kais_cli", "kais_cluster", "knowledge_client"),
    *("knowledge_service", "operator"),
)
Names = dict[str, list[str]]
"""Names by what they belong to, such as columns by table."""
_VARIABLE = re.compile(r"(KAIS|KNOWLEDGE|CELL)_[A-Z][A-Z0-9_]*")
# No service sends `expansion` any more; the command still explains it, as earlier ones sent it.
_ARMS = {"bm25", "expansion", "context", "links", "meaning", "word_vectors"}


def collect() -> dict[str, Names]:
    """Collect what the code has now."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "store.db"
        asyncio.run(record_store.make(path))
        keys, tables = _payload_keys(path), _tables(path)
        store = SqliteStore(path)
        try:
            openapi = create_app(store, NamedCallers({})).openapi()
        finally:
            store.close()
    result: dict[str, Names] = {
        "event types and keys of their payloads": keys,
        "tables and columns": tables,
        "labels, annotations, finalizers, keys and identities": {"kais": _constants(labels)},
        "condition types": {"all": [str(condition_type) for condition_type in ConditionType]},
        "condition reasons": {"all": [str(reason) for reason in Reason]},
        "problem codes": {"all": [str(code) for code in ErrorCode]},
        "score parts": {"all": [*_score_parts()]},
        "metrics of the operator, with labels": dict(_metrics(OperatorMetrics().registry)),
        "metrics of the service, with labels": dict(_metrics(ServiceMetrics().registry)),
        "metrics in all": {"all": [*_metric_names()]},
        "environment variables": {"all": [*_variables()]},
        "exit statuses": {"kais": [f"{status.name} {status.value}" for status in ExitStatus]},
        "programs": {"all": [*_project()["project"]["scripts"]]},
        "commands and options": {
            name: _options(command) for name, command in cli_reference.commands()
        },
        "fields of requests and answers": dict(_operations(openapi)),
        "fields of resources": dict(_resources()),
        "values of the chart": {"kais": [*_leaves(_chart())]},
    }
    return {
        section: {name: sorted(set(members)) for name, members in sorted(names.items())}
        for section, names in result.items()
    }


def written(names: Mapping[str, Names]) -> str:
    """Write names as the file has them: one line an owner, wrapped."""
    head = "# Names that are stored or sent; see wire_names.py, which adds to this file.\n"
    return head + yaml.dump(dict(names), width=96, sort_keys=False, default_flow_style=None)


def frozen() -> dict[str, Names]:
    """Read the file."""
    return dict(yaml.safe_load(FILE.read_text()))


def missing(then: Mapping[str, Names], now: Mapping[str, Names]) -> list[str]:
    """Say which names are gone."""
    return [
        f"{section}: {owner}: {name}" if name else f"{section}: {owner}"
        for section, owners in then.items()
        for owner, names in owners.items()
        for name in names or [""]
        if owner not in now.get(section, {}) or (name and name not in now[section][owner])
    ]


def merged(then: Mapping[str, Names], now: Mapping[str, Names]) -> dict[str, Names]:
    """Give both together."""
    result = {section: dict(owners) for section, owners in then.items()}
    for section, owners in now.items():
        for owner, names in owners.items():
            known_names = result.setdefault(section, {}).get(owner, [])
            result[section][owner] = sorted({*known_names, *names})
    return result


def _payload_keys(path: Path) -> Names:
    """Give the keys that each type of event has in a log in which everything happens."""
    keys: defaultdict[str, set[str]] = defaultdict(set)
    db = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    for event in replay.read_events(SqliteEventTable(db), 1):
        keys[event.type] |= {key for part in event.remaining_parts() for key in part}
    db.close()
    return {name: sorted(keys[name]) for name in projections._HANDLERS}


def _tables(path: Path) -> Names:
    db = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    tables = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
    columns = "SELECT name FROM pragma_table_info(?)"
    result = {
        str(name): [str(column) for (column,) in db.execute(columns, (name,))]
        for (name,) in db.execute(tables).fetchall()
    }
    db.close()
    return result


def _constants(module: Any) -> list[str]:
    return [
        value for name, value in vars(module).items() if name.isupper() and isinstance(value, str)
    ]


def _strings(pattern: str = "*.py") -> Iterator[str]:
    """Go through every string literal of the packages."""
    for package in PACKAGES:
        for path in (ROOT / package).rglob(pattern):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.Constant) and isinstance(node.value, str):
                    yield node.value


def _variables() -> Iterator[str]:
    return (text for text in _strings() if _VARIABLE.fullmatch(text))


def _score_parts() -> Iterator[str]:
    return (text for text in _strings() if re.fullmatch("x_[a-z]+", text) or text in _ARMS)


def _metrics(registry: CollectorRegistry) -> Iterator[tuple[str, list[str]]]:
    for collector, names in registry._collector_to_names.items():
        for name in names:
            if not name.endswith("_created"):
                yield name, [*getattr(collector, "_labelnames", ())]


def _metric_names() -> Iterator[str]:
    """Give those too that a registry has only while the process serves."""
    return (text for text in _strings("metrics.py") if re.fullmatch("kais(_[a-z]+)+", text))


def _project() -> Any:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


def _options(command: typer.core.TyperCommand) -> list[str]:
    return [name for parameter in command.params for name in parameter.opts]


def _operations(openapi: Mapping[str, Any]) -> Iterator[tuple[str, list[str]]]:
    resolve = _resolver(openapi)
    for path, methods in openapi["paths"].items():
        location = re.sub(r"{[^}]*}", "{}", path)
        for method, operation in methods.items():
            name = f"{method.upper()} {location}"
            parameters = operation.get("parameters", ())
            yield (
                name,
                [_parameter(parameter) for parameter in parameters if parameter["in"] != "path"],
            )
            for content in _contents([operation.get("requestBody") or {}]):
                yield f"{name}: request", [*_fields(content, resolve)]
            answers = [v for k, v in operation["responses"].items() if k.startswith("2")]
            for content in _contents(answers):
                yield f"{name}: answer", [*_fields(content, resolve)]


def _parameter(declared: Mapping[str, Any]) -> str:
    """Name a parameter; names of headers are the same in upper and lower case."""
    name = str(declared["name"])
    return f"header {name.lower()}" if declared["in"] == "header" else f"{declared['in']} {name}"


def _contents(bodies: Iterable[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    for body in bodies:
        for kind, content in (body.get("content") or {}).items():
            if kind == "application/json" and content.get("schema"):
                yield content["schema"]


def _resolver(openapi: Mapping[str, Any]) -> Callable[[Mapping[str, Any]], Mapping[str, Any]]:
    schemas = openapi["components"]["schemas"]

    def resolve(schema: Mapping[str, Any]) -> Mapping[str, Any]:
        reference = schema.get("$ref")
        return schemas[reference.rpartition("/")[2]] if reference else schema

    return resolve


def _fields(
    schema: Mapping[str, Any], resolve: Callable[[Mapping[str, Any]], Mapping[str, Any]]
) -> Iterator[str]:
    """Give the paths of a schema's fields, as `facts.source.type`."""
    schema = resolve(schema)
    for choice in ("anyOf", "oneOf", "allOf"):
        for item in schema.get(choice, ()):
            yield from _fields(item, resolve)
    if isinstance(schema.get("items"), dict):
        yield from _fields(schema["items"], resolve)
    for name, inner in (schema.get("properties") or {}).items():
        yield name
        yield from (f"{name}.{below}" for below in _fields(inner, resolve))


def _resources() -> Iterator[tuple[str, list[str]]]:
    for path in sorted((ROOT / "crds").glob("*.yaml")):
        spec = yaml.safe_load(path.read_text())["spec"]
        names = spec["names"]
        called = [names["plural"], names["singular"], *names.get("shortNames", ())]
        yield names["kind"], called
        for version in spec["versions"]:
            schema = version["schema"]["openAPIV3Schema"]["properties"]
            for part in ("spec", "status"):
                fields = [*_fields(schema.get(part, {}), lambda each: each)]
                yield f"{names['kind']} {version['name']} {part}", fields


def _chart() -> Any:
    return yaml.safe_load((ROOT / "charts/kais/values.yaml").read_text())


def _leaves(values: Any) -> Iterator[str]:
    for name, inner in values.items():
        if isinstance(inner, dict) and inner:
            yield from (f"{name}.{below}" for below in _leaves(inner))
        else:
            yield name


if __name__ == "__main__":
    later_frozen = frozen() if FILE.exists() else {}
    FILE.write_text(written(merged(later_frozen, collect())))
