"""Paths of the API server: the resource that a request concerns."""

import pytest

from kais_operator.kubernetes import api_paths
from kais_operator.planning.plan import ObjectRef


@pytest.mark.parametrize(
    ("path", "resource"),
    [
        (api_paths.single(ObjectRef("Pod", "demo", "p")), "pods"),
        (api_paths.single(ObjectRef("Pod", "pods", "p")) + "/log", "pods"),
        (api_paths.single(ObjectRef("Cell", "demo", "c")) + "/status", "cells"),
        (api_paths.collection("Deployment", "demo"), "deployments"),
        (api_paths.collection("Formation", None), "formations"),
        (api_paths.single(ObjectRef("Namespace", "", "demo")), "namespaces"),
        (api_paths.collection("Namespace", None), "namespaces"),
    ],
)
def test_the_resource_of_a_request_follows_from_its_path(path: str, resource: str) -> None:
    assert api_paths.resource_of(path) == resource
