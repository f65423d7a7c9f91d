import subprocess
import sys

import pytest

from kais import resource_names
from kais.resources import kinds


def test_names_are_those_of_the_models_in_the_same_order():
    names = {kind: (model.PLURAL, model.SHORT_NAME) for kind, model in kinds.BY_NAME.items()}
    assert list(names.items()) == list(resource_names.BY_KIND.items())


@pytest.mark.parametrize(
    ("group", "model", "unneeded"),
    [
        ("mission", "mission", ["resources.blueprint", "resources.formation"]),
        ("blueprint", "blueprint", ["resources.mission", "rendered_validation"]),
    ],
)
def test_list_of_one_kind_loads_no_other_models(group, model, unneeded):
    script = (
        "import sys; from kais_cli.cluster import kubernetes_cluster; from kais_cli.commands import"
        f" lazy_groups; lazy_groups._load({group!r}); print(*sys.modules)"
    )
    result = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    loaded = set(result.stdout.split())
    assert f"kais.resources.{model}" in loaded
    assert not loaded & {f"kais.{name}" for name in [*unneeded, "resources.knowledge_scope"]}
