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
    whole, partial = (
        subprocess.run([*command, *more], capture_output=True, text=True, check=False)
        for more in ([], ["--set", f"{absent}=null"])
    )

    assert partial.stderr == ""
    assert whole.stdout
    assert list(yaml.safe_load_all(partial.stdout)) == list(yaml.safe_load_all(whole.stdout))
