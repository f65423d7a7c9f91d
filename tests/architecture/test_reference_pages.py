"""The reference of the kinds is what the models say."""

from pathlib import Path

import pytest

from kais import reference_pages

ROOT = Path(__file__).resolve().parents[2]
PAGES = reference_pages.files()


@pytest.mark.parametrize("path", PAGES)
def test_page_is_current_make_reference_writes_it_anew(path):
    assert (ROOT / path).read_text(encoding="utf-8") == PAGES[path]


def test_no_page_is_left_over():
    present = {
        f"{reference_pages.FOLDER}/{p.name}" for p in (ROOT / reference_pages.FOLDER).glob("*.md")
    }
    assert present == set(PAGES)
