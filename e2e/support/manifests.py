"""Small manifests of the journeys: a hand-written team of one and its mission."""

from importlib.metadata import version
from typing import Any

Body = dict[str, Any]
PYTHON_IMAGE = f"localhost/kais/namespace-doctor:{version('kais')}"


def formation(name: str, namespace: str, script: str, *, image: str = PYTHON_IMAGE) -> Body:
    """A Formation with one Task cell `worker` that runs a Python script."""
    container = {"image": image, "command": ["python", "-c", script]}
    return {
        "apiVersion": "kais.io/v1",
        "kind": "Formation",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "cells": [{"name": "worker", "spec": {"mode": "Task", "container": container}}],
            "topology": {"type": "full_mesh"},
        },
    }


def mission(name: str, namespace: str, *, formation: str | None = None, **spec: Any) -> Body:
    """A Mission of that Formation."""
    return {
        "apiVersion": "kais.io/v1",
        "kind": "Mission",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "formationRef": formation or name,
            "objective": "Do the work that the test asks for",
            "entrypoint": {"cell": "worker"},
            **spec,
        },
    }


def blueprint(name: str, namespace: str, **spec: Any) -> Body:
    """A Blueprint with one Task cell, one integer parameter and a mission."""
    return {
        "apiVersion": "kais.io/v1",
        "kind": "Blueprint",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "parameters": [{"name": "seconds", "type": "integer", "default": 0, "min": 0}],
            "formation": {
                "cells": [
                    {
                        "name": "worker",
                        "spec": {
                            "mode": "Task",
                            "container": {
                                "image": PYTHON_IMAGE,
                                "command": ["python", "-c"],
                                "args": ["import time; time.sleep({{ seconds }})"],
                            },
                        },
                    }
                ],
                "topology": {"type": "full_mesh"},
            },
            "mission": {
                "objective": "Wait for {{ seconds }} seconds",
                "entrypoint": {"cell": "worker"},
            },
            **spec,
        },
    }
