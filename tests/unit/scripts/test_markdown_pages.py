"""Pages of a repository are read from a clone that has no file yet."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from bench.recall import markdown_pages

PAGES = {f"docs/{number}.md": f"# Page {number}\n" for number in range(5)}
MARKDOWN, NONE = re.compile(r"\.md$"), re.compile(r"^$")


def git(path: Path, *arguments: str) -> str:
    return markdown_pages.git("-C", str(path), *arguments)


def test_pages_of_a_partial_clone_are_fetched_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    origin, clone, trace = tmp_path / "origin", tmp_path / "some/project", tmp_path / "trace"
    markdown_pages.git("init", "--quiet", str(origin))
    for name, text in PAGES.items():
        (origin / name).parent.mkdir(exist_ok=True)
        (origin / name).write_text(text)
    git(origin, "config", "uploadpack.allowFilter", "true")
    git(origin, "config", "uploadpack.allowAnySHA1InWant", "true")
    git(origin, "add", ".")
    git(origin, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "--quiet", "-m", "Pages")
    options = ("--quiet", "--no-checkout", "--filter=blob:none")
    markdown_pages.git("clone", *options, origin.as_uri(), str(clone))
    monkeypatch.setenv("GIT_TRACE", str(trace))
    commit = git(origin, "rev-parse", "HEAD").strip()

    pages = list(markdown_pages.pages(tmp_path, "some/project", commit, MARKDOWN, NONE))

    assert pages == list(PAGES.values())
    assert trace.read_text().count("built-in: git fetch") == 1
