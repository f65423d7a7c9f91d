"""The documents keep up with what they describe."""

import re
import tomllib
from pathlib import Path

import pytest

from kais import labels

ROOT = Path(__file__).parents[3]
SETTINGS = sorted(
    path
    for folder in ("knowledge_client", "knowledge_service", "operator", "kais_cli", "kais_cluster")
    for path in (ROOT / folder).rglob("settings.py")
)
DOCUMENTS = sorted(
    path
    for path in (*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("*/**/README.md"))
    if not {".venv", ".uv", "build"} & set(path.relative_to(ROOT).parts)
)


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", SETTINGS, ids=name)
def test_every_variable_that_a_package_reads_is_documented(path: Path) -> None:
    reference = (ROOT / "docs/reference/settings.md").read_text()

    read = set(re.findall(r"\"((?:KAIS|KNOWLEDGE)_[A-Z0-9_]+)\"", path.read_text()))

    assert {variable for variable in read if f"`{variable}`" not in reference} == set()


def test_every_annotation_that_people_write_is_told() -> None:
    page = (ROOT / "docs/how-it-works.md").read_text()
    verbs = (labels.ABORT, labels.RERUN, labels.REVIEW, labels.RECONCILE)
    permissions = (labels.ALLOW_BREAKING_CHANGES, labels.ALLOW_CELLS, labels.APPROVED)
    assert [item for item in (*verbs, *permissions) if f"`{item}: " not in page] == []


@pytest.mark.parametrize("path", DOCUMENTS, ids=name)
def test_every_link_to_a_file_leads_somewhere(path: Path) -> None:
    prose = re.sub(r"`[^`\n]*`", "", path.read_text())
    links = re.findall(r"\]\(([^)#]+)[^)]*\)", prose)
    local = [link for link in links if "://" not in link]

    assert [link for link in local if not (path.parent / link).exists()] == []


def anchors(path: Path) -> set[str]:
    """Give the anchors of a page's headings as GitHub makes them."""
    text = re.sub(r"^```.*?^```", "", path.read_text(), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    plain = [re.sub(r"\]\([^)]*\)", "", heading).lower() for heading in headings]
    return {re.sub(r"[^\w\- ]", "", heading).replace(" ", "-") for heading in plain}


@pytest.mark.parametrize("path", DOCUMENTS, ids=name)
def test_every_link_to_a_heading_leads_somewhere(path: Path) -> None:
    prose = re.sub(r"`[^`\n]*`", "", path.read_text())
    links = re.findall(r"\]\(([^)#:]*)#([^)]+)\)", prose)

    missing = [
        f"{file}#{anchor}"
        for file, anchor in links
        if anchor not in anchors(path.parent / file if file else path)
    ]
    assert missing == []


@pytest.mark.parametrize("path", DOCUMENTS, ids=name)
def test_every_row_of_a_table_stands_below_its_heading(path: Path) -> None:
    text = re.sub(r"^ *```.*?^ *```", "", path.read_text(), flags=re.MULTILINE | re.DOTALL)
    tables = re.findall(r"(?:^ *\|.*\n)+", text, re.MULTILINE)

    lone = [table for table in tables if not re.match(r".*\n *\|[ :|-]+\|\n", table)]
    assert lone == [], "a blank line ends a table"


def test_every_make_target_in_the_documents_exists() -> None:
    targets = set(re.findall(r"^([a-z0-9- ]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    known_targets = {target for line in targets for target in line.split()}

    documents = {
        target
        for path in DOCUMENTS
        for target in re.findall(r"(?:`|^)make ([a-z0-9-]+)", path.read_text(), re.MULTILINE)
    }

    assert documents <= known_targets


def test_changelog_speaks_of_the_version_of_the_project() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]

    assert version in (ROOT / "CHANGELOG.md").read_text()


def test_every_decision_record_has_the_same_parts() -> None:
    records = sorted((ROOT / "docs/decisions").glob("0*.md"))

    assert [int(path.name[:4]) for path in records] == list(range(1, len(records) + 1))
    for path in records:
        text = path.read_text()
        assert text.startswith(f"# {int(path.name[:4])}. "), name(path)
        for part in ("Status", "Context.", "Decision.", "Alternatives.", "Consequences."):
            assert f"**{part}**" in text, f"{name(path)} lacks {part}"


def test_every_decision_is_listed_by_its_heading() -> None:
    folder = ROOT / "docs/decisions"
    listed = re.findall(
        r"^\| (\d+) \| \[(.*)\]\((.*)\) \|", (folder / "README.md").read_text(), re.M
    )
    records = [
        (*re.findall(r"^# (\d+)\. (.*)", path.read_text())[0], path.name)
        for path in sorted(folder.glob("0*.md"))
    ]
    assert listed == records, "add a row to docs/decisions/README.md"


def test_every_place_that_the_glossary_names_exists() -> None:
    rows = [
        line.split("|")
        for line in (ROOT / "docs/glossary.md").read_text().splitlines()
        if line.startswith("|")
    ]
    locations = {location for row in rows for location in re.findall(r"`([^`]+)`", row[3])}

    assert locations
    assert {location for location in locations if not (ROOT / location).exists()} == set()
