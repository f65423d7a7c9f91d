"""Names in metadata are refused as the API server refuses them."""

import pytest

from kais import metadata_validation


@pytest.mark.parametrize(
    "metadata",
    [
        {"name": "a"},
        {"name": "a.b-c.1"},
        {"name": "a" * 253},
        {"generateName": "run-"},
        {"generateName": "run", "namespace": "n" * 63},
        {"name": 3},
    ],
)
def test_a_name_that_the_api_server_accepts_is_valid(metadata):
    assert list(metadata_validation.violations(metadata)) == []


@pytest.mark.parametrize(
    ("metadata", "problem"),
    [
        (None, "metadata.name: Required value: name or generateName is required"),
        ({"name": ""}, "metadata.name: Required value: name or generateName is required"),
        ({"name": "a..b"}, 'metadata.name: Invalid value: "a..b": '),
        ({"name": "a-"}, ", such as a"),
        ({"name": "a\n"}, ", such as a"),
        ({"name": "_"}, "with an alphanumeric character"),
        ({"name": "é"}, 'Invalid value: "é"'),
        ({"name": "a" * 254}, "has 254 characters; must be no more than 253 characters"),
        ({"generateName": "Run-"}, 'metadata.generateName: Invalid value: "Run-"'),
        ({"name": "a", "namespace": "n" * 64}, "must be no more than 63 characters"),
        ({"name": "a", "namespace": "n.m"}, "a lowercase RFC 1123 label must consist"),
    ],
)
def test_a_name_that_the_api_server_refuses_is_a_violation(metadata, problem):
    (violation,) = metadata_validation.violations(metadata)
    assert problem in str(violation)
