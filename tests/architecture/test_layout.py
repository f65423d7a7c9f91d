import importlib.util
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import yaml

from kais import crds
from kais.reasons import Reason

ROOT = Path(__file__).parents[2]
PACKAGES = (
    *("kais", "kais_cli", "kais_cluster", "kais_mcp", "kais_rendering"),
    *("agent_runtime", "knowledge_client", "knowledge_service", "operator"),
)


BESIDE = ("bench", "e2e", "examples", "scripts", "tests")


def modules(*folders: str):
    return [path for folder in folders for path in (ROOT / folder).rglob("*.py")]


def test_operator_folder_is_no_package():
    assert not (ROOT / "operator" / "__init__.py").exists()


def test_tests_are_no_packages():
    assert list((ROOT / "tests").rglob("__init__.py")) == []


def test_import_contracts_hold():
    program = Path(sys.executable).parent / "lint-imports"
    process = subprocess.run([program], cwd=ROOT, capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stdout


def test_every_module_of_a_layers_contract_exists():
    linter = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    modules = [
        f"{container}.{module}".lstrip(".")
        for contract in linter["contracts"]
        if contract["type"] == "layers"
        for container in contract.get("containers", [""])
        for layer in contract["layers"]
        for module in re.findall(r"\w+", layer)
    ]
    assert len(modules) > 1
    assert [module for module in modules if importlib.util.find_spec(module) is None] == []


def test_generated_files_are_current():
    assert crds.stale_files(ROOT) == [], "run `make crds`"


def test_charts_have_the_projects_version():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for path in ROOT.glob("charts/*/Chart.yaml"):
        chart = yaml.safe_load(path.read_text())
        assert (chart["version"], chart["appVersion"]) == (project["version"],) * 2, path


def test_types_are_checked_of_all_but_tests_themselves():
    mypy = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["mypy"]
    checked = {package for package in mypy["packages"] if not package.startswith("tests.")}
    folders = {path.parent for path in ROOT.glob("*/*.py")} - {ROOT / "tests"}
    examples = {path.parent for path in ROOT.glob("examples/*/*/__init__.py")}
    operator = {ROOT / "operator/kais_operator"}
    assert {folder.name for folder in folders | examples | operator} == checked


def test_types_are_checked_of_what_all_tests_share():
    mypy = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["mypy"]
    modules = {f"tests.{path.stem}" for path in (ROOT / "tests").glob("*.py")}
    assert modules - {"tests.conftest"} - {*mypy["modules"]} == set()
    assert {"tests.fakes", "tests.model_server"} <= {*mypy["packages"]}


def test_every_reason_is_documented():
    assert [reason for reason in Reason if not reason.meaning] == []
    assert len({reason.value for reason in Reason}) == len(Reason)


def test_only_the_event_table_reads_and_writes_payloads() -> None:
    statement = re.compile(r"\b(FROM|JOIN|INTO|UPDATE)\s+payload\b")
    service = ROOT / "knowledge_service"
    modules = [
        str(path.relative_to(service))
        for path in sorted(service.rglob("*.py"))
        if statement.search(path.read_text())
    ]
    assert modules == ["store/sqlite/event_table.py"]
