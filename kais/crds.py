"""Generates the CustomResourceDefinitions from the models: `python -m kais.crds [--check]`.

The files in crds/ and their copies in the chart are generated, never edited. `--check` writes
nothing and fails if a file differs from the models.
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kais import labels, openapi, yaml_writer
from kais.resources.base import API_GROUP, Resource
from kais.resources.kinds import KINDS

VERSION = "v1"
SIZE_LIMIT = 256 * 1024  # `kubectl apply` keeps a copy in an annotation, which holds no more
_HEADER = "# Generated from kais/resources by `make crds`; do not edit.\n"
_HELM_KEEP = {"helm.sh/resource-policy": "keep"}


def definition(kind: type[Resource], *, keep_on_uninstall: bool = False) -> dict[str, Any]:
    """Return the CRD of a kind; with `keep_on_uninstall`, Helm keeps it on uninstall."""
    name = f"{kind.PLURAL}.{API_GROUP}"
    metadata: dict[str, Any] = {"name": name}
    if keep_on_uninstall:
        metadata["annotations"] = dict(_HELM_KEEP)
    metadata["labels"] = {"app.kubernetes.io/part-of": "kais"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": metadata,
        "spec": {
            "group": API_GROUP,
            "scope": "Namespaced",
            "names": {
                "kind": kind.__name__,
                "listKind": f"{kind.__name__}List",
                "plural": kind.PLURAL,
                "singular": kind.__name__.lower(),
                "shortNames": [kind.SHORT_NAME],
                "categories": [labels.CATEGORY],
            },
            "versions": [_version(kind)],
        },
    }


def _version(kind: type[Resource]) -> dict[str, Any]:
    version: dict[str, Any] = {
        "name": VERSION,
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "additionalPrinterColumns": [
            {
                "name": column.name,
                "type": column.type,
                "jsonPath": column.json_path,
                "description": column.description,
                **({"priority": column.priority} if column.priority else {}),
            }
            for column in kind.COLUMNS
        ],
    }
    if kind.SELECTABLE:
        version["selectableFields"] = [{"jsonPath": path} for path in kind.SELECTABLE]
    version["schema"] = {"openAPIV3Schema": _root(kind)}
    return version


def _root(kind: type[Resource]) -> dict[str, Any]:
    schema = openapi.structural(kind)
    properties = schema["properties"]
    root: dict[str, Any] = {
        "description": kind.DESCRIPTION,
        "type": "object",
        "required": ["spec"],
        "properties": {
            "apiVersion": {"type": "string", "description": "group and version: kais.io/v1"},
            "kind": {"type": "string", "description": f"always {kind.__name__}"},
            "metadata": {"type": "object"},
            "spec": properties["spec"],
            "status": properties["status"],
        },
    }
    if "x-kubernetes-validations" in schema:
        root["x-kubernetes-validations"] = schema["x-kubernetes-validations"]
    return root


def files() -> dict[str, str]:
    """Return all generated files: path relative to the project's root → text."""
    texts: dict[str, str] = {}
    for kind in KINDS:
        name = f"{kind.PLURAL}.{API_GROUP}.yaml"
        texts[f"crds/{name}"] = _HEADER + yaml_writer.dump(definition(kind))
        chart = yaml_writer.dump(definition(kind, keep_on_uninstall=True))
        texts[f"charts/kais-crds/templates/{name}"] = _HEADER + chart
    return texts


def stale_files(root: Path) -> list[str]:
    """Return the generated files under `root` that are missing, outdated or left over."""
    expected = files()
    stale_paths = [
        path
        for path, text in expected.items()
        if not (root / path).is_file() or (root / path).read_text() != text
    ]
    for folder in ("crds", "charts/kais-crds/templates"):
        present = (root / folder).glob("*.yaml")
        stale_paths += [
            f"{folder}/{p.name}" for p in present if f"{folder}/{p.name}" not in expected
        ]
    return sorted(stale_paths)


def main(arguments: Sequence[str]) -> int:
    """Write the files, or with `--check` only compare; returns the exit status."""
    root = Path(__file__).parent.parent
    if "--check" in arguments:
        stale_paths = stale_files(root)
        sys.stderr.writelines(f"{path} is not current; run `make crds`\n" for path in stale_paths)
        return 1 if stale_paths else 0
    for path, text in files().items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
