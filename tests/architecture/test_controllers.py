"""One folder for each kind, and decisions that read nothing."""

import shutil
import subprocess
import sys
from pathlib import Path

from kais_operator.controllers import registry

ROOT = Path(__file__).parents[2]
OPERATOR = ROOT / "operator" / "kais_operator"
CONTROLLERS = OPERATOR / "controllers"
OF_ALL_KINDS = {"__init__", "base", "registry"}


def kinds_with_decisions(controllers: Path) -> list[Path]:
    return sorted(path.parent for path in controllers.glob("*/decide"))


def test_every_module_of_a_kind_observes_or_decides():
    strays = []
    for path in CONTROLLERS.rglob("*.py"):
        parts = path.relative_to(CONTROLLERS).with_suffix("").parts
        is_for_all_kinds = len(parts) == 1 and parts[0] in OF_ALL_KINDS
        if not is_for_all_kinds and parts[1] not in ("__init__", "observe", "decide"):
            strays.append(path)
    assert strays == []


def test_every_kind_of_the_registry_has_a_folder_that_observes_and_decides():
    for kind in kinds_with_decisions(CONTROLLERS):
        assert (kind / "observe.py").exists() or (kind / "observe").is_dir(), kind
        assert (kind / "decide" / "__init__.py").exists(), kind
    assert len(kinds_with_decisions(CONTROLLERS)) == len(registry.CONTROLLERS)


def test_an_import_of_os_in_any_decision_breaks_the_contract(tmp_path: Path):
    shutil.copytree(OPERATOR, tmp_path / "kais_operator", ignore=shutil.ignore_patterns("__py*"))
    kinds = kinds_with_decisions(tmp_path / "kais_operator" / "controllers")
    planted = [tmp_path / "kais_operator" / "planning", *(kind / "decide" for kind in kinds)]
    for folder in planted:
        (folder / "planted.py").write_text("import os\n")
    result = subprocess.run(
        [Path(sys.executable).parent / "lint-imports", "--no-cache"],
        cwd=ROOT,
        env={"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 1, result.stdout
    assert "Decisions are pure: no I/O, no clock BROKEN" in result.stdout
    for folder in planted:
        module = ".".join((folder / "planted").relative_to(tmp_path).parts)
        assert f"{module} -> os" in result.stdout
