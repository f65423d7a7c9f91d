"""Sizing, security and the gallery keep up with the benchmarks, the tests and the folders."""

import re

import pytest
import yaml

from e2e.support import documents
from kais.resources.formation import MAX_CELLS
from knowledge_service.domain import capacity

ROOT = documents.ROOT
SIZING = (ROOT / "docs/reference/sizing.md").read_text()
BENCHMARKS = (ROOT / "docs/benchmarks.md").read_text()
SECURITY = (ROOT / "docs/security.md").read_text()
GALLERY = (ROOT / "examples/README.md").read_text()


def rows(text: str, heading: str) -> list[list[str]]:
    """Return the cells of the first table after a heading, without its two first lines."""
    section = text.split(f"\n## {heading}\n")[1].split("\n## ", maxsplit=1)[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def is_measured(figure: str) -> bool:
    """Whether the benchmarks have this number, with or without its comma."""
    forms = {re.escape(figure), re.escape(figure.replace(",", ""))}
    return re.search(rf"(?<![\d.,])(?:{'|'.join(forms)})(?!,?\d)", BENCHMARKS) is not None


@pytest.mark.parametrize("heading", ["Knowledge service", "Operator"])
def test_every_figure_of_sizing_is_one_of_the_benchmarks(heading: str) -> None:
    figures = [cell for row in rows(SIZING, heading) for cell in row]
    assert len(figures) > 10
    assert [figure for figure in figures if not is_measured(figure)] == []


def test_every_figure_in_a_sentence_of_sizing_is_one_of_the_benchmarks() -> None:
    for figure in ("30.4", "49", "145", "44", "41 ms", "1,621"):
        assert figure in SIZING
        assert is_measured(figure.removesuffix(" ms"))


def test_limits_of_sizing_are_those_of_the_code() -> None:
    limits = yaml.safe_load((ROOT / "charts/kais/values.yaml").read_text())["operator"]
    assert limits["resources"]["limits"]["memory"] == "512Mi"
    assert "limit is 512 MiB" in SIZING
    assert f"at most {MAX_CELLS:,} cells" in SIZING
    assert f"{capacity.UNDECLARED_FACTS:,} live facts" in SIZING


def test_every_threat_names_what_stops_it_what_remains_and_a_test() -> None:
    threats = rows(SECURITY, "Threats")
    assert len(threats) >= 15
    for threat, stopped_by, remains, tests in threats:
        assert stopped_by, threat
        assert remains, threat
        paths = re.findall(r"`([^`]+)`", tests)
        assert paths, threat
        for path in paths:
            assert "def test_" in (ROOT / path).read_text(), path


def test_every_example_is_in_the_gallery_and_every_file_that_it_names_exists() -> None:
    folders = {path.parent.name for path in (ROOT / "examples").glob("*/README.md")}
    listed = set(re.findall(r"^\| \[([a-z-]+)\]", GALLERY, re.M))
    assert listed == folders
    named = re.findall(r"`([a-z-]+/[\w/.-]+\.(?:py|yaml))`", GALLERY)
    assert len(named) > 5
    assert [path for path in named if not (ROOT / "examples" / path).exists()] == []


def test_every_shape_is_listed() -> None:
    folder = ROOT / "examples/shapes"
    listed = set(re.findall(r"^\| `([a-z-]+\.yaml)` \|", (folder / "README.md").read_text(), re.M))
    assert listed == {path.name for path in folder.glob("*.yaml")}


@pytest.mark.parametrize(
    "page",
    [
        "docs/reference/sizing.md",
        "docs/reference/templates.md",
        "docs/how-to/upgrade.md",
        "docs/how-to/operate-at-night.md",
        "docs/security.md",
        "examples/README.md",
    ],
)
def test_page_is_linked_from_the_first_one(page: str) -> None:
    assert f"]({page})" in (ROOT / "README.md").read_text()
