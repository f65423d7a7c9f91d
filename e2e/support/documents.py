"""Documents as scripts: their command blocks run from top to bottom, their files are written."""

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
COMMANDS = re.compile(
    r"^ *(?:[A-Z_]+=\S+ )*(?:kubectl|kais|kais-knowledge|make|helm|eval|export|source|sed|python3?"
    r"|\.venv/bin/|pipx|uv|docker|podman|buildah|cosign|litestream)(?: |$)"
)
SHELLS = frozenset({"sh", "shell", "bash"})
READER, MISSION = "reader", "count"
"""The namespace and the mission that stand for those of a reader."""

_FENCE = re.compile(r"^(?P<indent> *)```(?P<language>\w*) *\n(?P<text>.*?)^ *```", re.M | re.S)
_RUN_BY = re.compile(r"<!-- run by: (.+?) -->\s*$")
_NOT_RUN = re.compile(r"<!-- not run: (.+?) -->\s*$")
_FIELDS_OF = re.compile(r"<!-- fields of: (.+?) -->\s*$")
_FILE = re.compile(r"^# file: (\S+)\n")
_NAMESPACE = re.compile(r"kubectl create namespace (\S+)")


@dataclass(frozen=True)
class Block:
    """One fenced block, and the comment before it.

    `run_by` names the test that runs it instead, and `not_run` says why none does. `fields_of`
    names the object that a block with some fields belongs to.
    """

    language: str
    text: str
    run_by: str = ""
    not_run: str = ""
    fields_of: str = ""

    @property
    def is_commands(self) -> bool:
        """Whether a reader is to type it, whatever language its fence names.

        A transcript has a prompt before what was typed, and counts as output.
        """
        lines = self.text.splitlines()
        return self.language in SHELLS or any(COMMANDS.match(line) for line in lines)

    @property
    def file(self) -> str:
        """The name under which a reader is asked to save it, if any."""
        match = _FILE.match(self.text)
        return match[1] if match else ""


def paths() -> list[Path]:
    """Every document of the project that a user reads."""
    candidates = [
        ROOT / "README.md",
        *(ROOT / "docs").rglob("*.md"),
        *(ROOT / "examples").rglob("*.md"),
    ]
    return sorted(path for path in candidates if "decisions" not in path.parts)


def blocks(path: Path) -> list[Block]:
    text = path.read_text()
    parsed_blocks = []
    for fence in _FENCE.finditer(text):
        preceding_text = text[: fence.start()]
        run_by, not_run, fields_of = (
            pattern.search(preceding_text) for pattern in (_RUN_BY, _NOT_RUN, _FIELDS_OF)
        )
        parsed_blocks.append(
            Block(
                fence["language"],
                fence["text"],
                run_by=run_by[1] if run_by else "",
                not_run=not_run[1] if not_run else "",
                fields_of=fields_of[1] if fields_of else "",
            )
        )
    return parsed_blocks


def script(path: Path) -> str:
    """The commands of a document that no other test runs, in order.

    NAMESPACE and NAME stand for what a reader puts in: they become a mission of the run's own.
    """
    shell_blocks = [
        block
        for block in blocks(path)
        if block.language == "sh" and not (block.run_by or block.not_run)
    ]
    text = "".join(block.text for block in shell_blocks)
    return re.sub(r"\bNAMESPACE\b", READER, re.sub(r"\bNAME\b", MISSION, text))


def files(path: Path) -> dict[str, str]:
    """The files that a reader is asked to save."""
    return {block.file: block.text for block in blocks(path) if block.file}


def needs_mission(path: Path) -> bool:
    """Whether the commands speak of a mission that the reader has."""
    return bool(re.search(rf"\b{READER}\b", script(path)))


def namespaces(text: str) -> list[str]:
    """The namespaces that commands make."""
    return _NAMESPACE.findall(text)


def in_fresh_namespaces(text: str, suffix: str) -> str:
    """Give the namespaces names that no earlier reader used: what a realm learnt outlives them."""
    for name in namespaces(text):
        text = re.sub(rf"(-n |namespace |realm:){name}\b(?!-)", rf"\g<1>{name}-{suffix}", text)
    return text
