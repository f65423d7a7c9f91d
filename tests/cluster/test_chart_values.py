"""The chart with the values of an earlier chart, as `helm upgrade --reuse-values` renders it."""

import subprocess
from pathlib import Path

import pytest
import yaml

CHART = Path(__file__).parents[2] / "charts" / "kais"


@pytest.mark.parametrize("absent", ["operator.renderer", "operator.renderer.resources"])
def test_the_chart_renders_the_same_without_the_values_that_a_former_chart_lacks(
    helm: Path, absent: str
) -> None:
    command = [helm, "template", "kais", CHART]
    full_process, partial = (
        subprocess.run([*command, *extra_items], capture_output=True, text=True, check=False)
        for extra_items in ([], ["--set", f"{absent}=null"])
    )

    assert partial.stderr == ""
    assert full_process.stdout
    assert list(yaml.safe_load_all(partial.stdout)) == list(yaml.safe_load_all(full_process.stdout))
