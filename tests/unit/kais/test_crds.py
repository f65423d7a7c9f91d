import functools
import json
import re
import zlib
from pathlib import Path

import pytest
import yaml

from kais import crds, yaml_writer
from kais.resources import pod_schema
from kais.resources.kinds import KINDS

ROOT = Path(__file__).parents[3]


def own_nodes(schema, path=""):
    """The fields of kais; those below a field of Kubernetes have no descriptions, to be small."""
    yield path, schema
    if pod_schema.is_from_kubernetes(path.rpartition(".")[2], schema):
        return
    for name, child in schema.get("properties", {}).items():
        yield from own_nodes(child, f"{path}.{name}")
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            yield from own_nodes(schema[key], f"{path}[]")


def nodes(schema, path=""):
    yield path, schema
    for name, child in schema.get("properties", {}).items():
        yield from nodes(child, f"{path}.{name}")
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            yield from nodes(schema[key], f"{path}[]")


@functools.cache
def schema_of(kind):
    (version,) = crds.definition(kind)["spec"]["versions"]
    return version["schema"]["openAPIV3Schema"]


@pytest.fixture(scope="module")
def files():
    return crds.files()


def read(text):
    return yaml.load(text, Loader=yaml.CSafeLoader)


@pytest.mark.parametrize("kind", KINDS)
def test_every_field_has_a_description_that_says_more_than_its_name(kind):
    for path, node in own_nodes(schema_of(kind)):
        if path in ("", ".apiVersion", ".kind", ".metadata") or path.endswith("[]"):
            continue
        text = node.get("description", "").split()
        assert len(text) >= 3, path


@pytest.mark.parametrize("kind", KINDS)
def test_every_list_and_text_of_a_spec_is_bounded(kind):
    spec = schema_of(kind)["properties"]["spec"]
    for path, node in nodes(spec, "spec"):
        if node.get("type") == "array":
            assert "maxItems" in node, path
        if node.get("type") == "string" and "enum" not in node and "format" not in node:
            assert "maxLength" in node, path


@pytest.mark.parametrize("kind", KINDS)
def test_schema_is_structural(kind):
    for path, node in nodes(schema_of(kind)):
        assert not {"anyOf", "$ref", "title", "const"} & set(node), path
        free = "x-kubernetes-preserve-unknown-fields" in node
        assert "type" in node or free or "x-kubernetes-int-or-string" in node, path
        assert not ("properties" in node and "additionalProperties" in node), path


@pytest.mark.parametrize("kind", KINDS)
def test_columns_point_at_fields_that_exist(kind):
    paths = {path for path, _ in nodes(schema_of(kind))}
    for column in kind.COLUMNS:
        expected = re.sub(r"\[\?\(.*\)\]\.(status|reason|message)$", "", column.json_path)
        assert expected == ".metadata.creationTimestamp" or expected in paths, column
    for selectable in kind.SELECTABLE:
        assert selectable in paths, selectable


@pytest.mark.parametrize("kind", KINDS)
def test_conditions_are_a_list_map_by_type(kind):
    conditions = schema_of(kind)["properties"]["status"]["properties"]["conditions"]
    assert conditions["x-kubernetes-list-type"] == "map"
    assert conditions["x-kubernetes-list-map-keys"] == ["type"]
    needed = {"type", "status", "reason", "message", "lastTransitionTime"}
    assert needed <= set(conditions["items"]["required"])


def test_generated_files_fit_and_hold_nothing_that_helm_would_run(files):
    for path, text in files.items():
        assert len(text.encode()) < crds.SIZE_LIMIT, path
        assert "{{" not in text, path


def test_the_definitions_fit_into_the_secret_of_a_helm_release(files):
    charts = "".join(text for path, text in files.items() if path.startswith("charts/"))
    # A release contains the templates and the manifest, compressed, in base64 twice.
    stored = len(zlib.compress(json.dumps([charts, charts]).encode())) * (4 / 3) ** 2
    assert stored < 512 * 1024, "a Secret may have 1 MiB"


def test_generated_yaml_reads_back_as_it_was(files):
    for kind in KINDS:
        text = files[f"crds/{kind.PLURAL}.kais.io.yaml"]
        assert read(text) == crds.definition(kind)


def test_chart_keeps_the_definitions_when_it_goes(files):
    for path, text in files.items():
        annotations = read(text)["metadata"].get("annotations", {})
        assert (annotations.get("helm.sh/resource-policy") == "keep") == path.startswith("charts/")


def test_stale_and_left_over_files_are_found(tmp_path, files):
    for path, text in files.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    assert crds.stale_files(tmp_path) == []
    (tmp_path / "crds" / "old.yaml").write_text("")
    (tmp_path / "crds" / "cells.kais.io.yaml").write_text("edited")
    assert crds.stale_files(tmp_path) == ["crds/cells.kais.io.yaml", "crds/old.yaml"]


@pytest.mark.parametrize(
    "value",
    [
        "yes",
        "on",
        "n",
        "007",
        "1e5",
        ".5",
        "a: b",
        "- x",
        "",
        " x",
        "x ",
        "#",
        "a #b",
        "{}",
        "~",
        "ä",
    ],
)
def test_awkward_text_reads_back(value):
    tree = {"a": value, "b": [value, {"c": value}], value or "k": [[1, value], []]}
    assert yaml.safe_load(yaml_writer.dump(tree)) == tree
