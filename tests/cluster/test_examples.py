"""What our examples apply is taken by a real API server as it is."""

from pathlib import Path

import pytest

pytestmark = pytest.mark.cluster

EXAMPLES = Path(__file__).parents[2] / "examples"
MANIFESTS = sorted(path for path in EXAMPLES.glob("*/*.yaml") if "\nkind: " in path.read_text())


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_example_manifest_is_taken_by_the_api_server(control_plane, path: Path) -> None:
    arguments = ("--dry-run=server", "--validate=strict", "-n", "default", "-f", str(path))

    printed = control_plane.kubectl("apply", *arguments)

    created = [line for line in printed.splitlines() if "created" in line]
    assert len(created) == path.read_text().count("\nkind: ")
