"""Markdown pages of GitHub repositories at fixed commits, and the paragraphs of a page."""

import re
import subprocess
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

_MAX_CHARACTERS = 2000
MIN_WORDS = 4
_FENCE = re.compile(r"\s*(```|~~~)")
_HEADING = re.compile(r"(#{1,6})\s+(.*)")
_LIST_ITEM = re.compile(r"\s*([-*+]|\d+[.)])\s+")
# Headings that divide the answer to the question above them.
_PART_OF_ANSWER = re.compile(r"(?i)solution|symptom|examples?:?")
_MARKUP = (
    (re.compile(r"!\[[^\]]*\]\([^)]*\)|<[^>]+>|\{\{.*?\}\}|\{#.*?\}|\[\^\d+\]"), ""),
    (re.compile(r"\[([^\]]*)\](?:\([^)]*\)|\[[^\]]*\])"), r"\1"),
    (re.compile(r"`|\*\*|__"), ""),
    (re.compile(r"\s+"), " "),
)


def git(*arguments: str) -> str:
    """Run a git command; return what it prints."""
    completed = subprocess.run(
        ["git", *arguments],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        errors="replace",
    )
    return completed.stdout


def clone(folder: Path, repository: str) -> Path:
    """Return the clone of a repository in a folder; make it if it is missing."""
    path = folder / repository
    if not path.exists():
        url = f"https://github.com/{repository}"
        git("clone", "--quiet", "--no-checkout", "--filter=blob:none", url, str(path))
    return path


def page(folder: Path, repository: str, commit: str, path: str) -> str:
    """Return a page, or all pages below a path that ends with a slash."""
    clone_path = clone(folder, repository)
    if not path.endswith("/"):
        return git("-C", str(clone_path), "show", f"{commit}:{path}")
    tree = git("-C", str(clone_path), "ls-tree", "-r", "--name-only", commit, path)
    return "\n\n".join(page(folder, repository, commit, line) for line in tree.splitlines())


def pages(
    folder: Path,
    repository: str,
    commit: str,
    wanted: re.Pattern[str],
    unwanted: re.Pattern[str],
) -> Iterator[str]:
    """Yield all pages whose path is wanted, in the order of their paths, each content once."""
    path = str(clone(folder, repository))
    tree = git("-C", path, "ls-tree", "-r", commit)
    entries = (line.split("\t", 1) for line in tree.splitlines())
    blobs = dict.fromkeys(
        meta.split()[2]
        for meta, name in entries
        if wanted.search(name) and not unwanted.search(name)
    )
    yield from _blobs(path, blobs)


def _blobs(path: str, blobs: Collection[str]) -> Iterator[str]:
    names = "\n".join(blobs).encode()
    if blobs and _is_partial(path):
        _fetch(path, names)
    completed = subprocess.run(
        ["git", "-C", path, "cat-file", "--batch"],
        check=True,
        input=names,
        stdout=subprocess.PIPE,
    )
    output, position = completed.stdout, 0
    while position < len(output):
        start = output.index(b"\n", position) + 1
        size = int(output[position:start].split()[2])
        yield output[start : start + size].decode("utf-8", "replace")
        position = start + size + 1


def _is_partial(path: str) -> bool:
    command = ["git", "-C", path, "config", "remote.origin.promisor"]
    return subprocess.run(command, check=False, stdout=subprocess.PIPE).stdout == b"true\n"


def _fetch(path: str, names: bytes) -> None:
    """Fetch blobs with one request; reading them from a partial clone would send one for each."""
    options = ["--quiet", "--no-tags", "--no-write-fetch-head", "--filter=blob:none", "--stdin"]
    subprocess.run(["git", "-C", path, "fetch", *options, "origin"], check=True, input=names)


def sections(text: str) -> Iterator[tuple[str, list[str]]]:
    """Yield each heading of a Markdown page with the paragraphs and list items below it."""
    text = re.sub(r"\A---\n.*?\n---\n|<!--.*?-->", "", text, flags=re.DOTALL)
    heading, level, blocks = "", 0, list[str]()
    for block in _blocks(text):
        match = _HEADING.match(block)
        if not match:
            blocks.append(block)
        elif not (len(match[1]) > level and _PART_OF_ANSWER.fullmatch(_plain(match[2]))):
            yield heading, _texts(blocks)
            heading, level, blocks = _plain(match[2].strip(" #")), len(match[1]), []
    yield heading, _texts(blocks)


def _blocks(text: str) -> Iterator[str]:
    """Yield headings, paragraphs and list items; code blocks are left out."""
    is_code, lines = False, list[str]()
    for line in [*text.splitlines(), ""]:
        is_fence = _FENCE.match(line) is not None
        is_code ^= is_fence
        is_heading = not is_code and _HEADING.match(line) is not None
        if lines and (is_fence or is_heading or not line.strip() or _LIST_ITEM.match(line)):
            yield " ".join(lines)
            lines = []
        if is_heading:
            yield line
        elif not (is_code or is_fence) and line.strip():
            lines.append(line.strip())


def _texts(blocks: Sequence[str]) -> list[str]:
    texts = [_plain(block)[:_MAX_CHARACTERS] for block in blocks if not block.startswith("|")]
    return [text for text in texts if len(text.split()) >= MIN_WORDS]


def _plain(markdown: str) -> str:
    text = _LIST_ITEM.sub("", markdown, count=1)
    for pattern, replacement in _MARKUP:
        text = pattern.sub(replacement, text)
    return text.strip()
