"""The prose checker finds what our style and proselint name, where users read it."""

from pathlib import Path

import pytest

from scripts import prose


def problems(lines: list[prose.Line]) -> list[str]:
    return [str(problem) for problem in prose.check_lines(lines, prose.load_style())]


def test_a_form_of_our_style_is_reported_at_its_line() -> None:
    page = prose.markdown_lines("page.md", "# Title\n\nPlain text.\nNobody reads it.\n")
    assert problems(page) == [
        "page.md:4: 'Nobody': write no one, or better who it is. [kais]",
    ]


def test_checks_of_proselint_are_enabled() -> None:
    page = prose.markdown_lines("page.md", "This is a very unique page.\n")
    assert any("uncomparables" in problem for problem in problems(page))


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("```sh\necho nobody\n```\n", id="code block"),
        pytest.param("The user `nobody` has no home.\n", id="inline code"),
        pytest.param("See [the page](nobody.md).\n", id="link target"),
        pytest.param("<!-- nobody -->\n", id="comment"),
        pytest.param("# kais\n\nkais is an operator.\n", id="heading before the same word"),
    ],
)
def test_code_and_markup_of_a_page_are_not_checked(text: str) -> None:
    assert problems(prose.markdown_lines("page.md", text)) == []


def test_comments_of_yaml_are_checked_and_its_values_are_not() -> None:
    text = "# Told to nobody.\nuser: nobody\nrun: {{ nobody }}\n"
    assert problems(prose.comment_lines("values.yaml", text)) == [
        "values.yaml:1: 'nobody': write no one, or better who it is. [kais]",
    ]


def test_notes_of_a_chart_are_checked_without_template_actions() -> None:
    text = "{{ if nobody }}\nMend the chart.\n{{ end }}\n"
    assert problems(prose.comment_lines("NOTES.txt", text)) == [
        "NOTES.txt:2: 'Mend': write fix or repair. [kais]",
    ]


def test_messages_in_code_are_checked_and_names_are_not() -> None:
    source = (
        'KEY = "nobody"\n'
        'STATEMENT = "SELECT nobody FROM a table"\n'
        'raise KeyError(f"{KEY} is known to nobody here")\n'
    )
    assert problems(list(prose.message_lines("module.py", source))) == [
        "module.py:3: 'nobody': write no one, or better who it is. [kais]",
    ]


def test_docstrings_are_checked_on_request() -> None:
    source = '"""A module that nobody reads."""\n\nLIMIT = 3\n"""Half of what anew means."""\n'
    assert problems(list(prose.message_lines("module.py", source))) == []
    checked = prose.message_lines("module.py", source, docstrings=True)
    assert [problem.split(":")[1] for problem in problems(list(checked))] == ["1", "4"]


def test_the_command_fails_when_it_finds_something(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(prose, "ROOT", tmp_path)
    page = tmp_path / "page.md"
    page.write_text("Plain text.\n")
    assert prose.main([str(page)]) == 0
    page.write_text("It is made anew.\n")
    assert prose.main([str(page)]) == 1
    assert capsys.readouterr().out == "page.md:1: 'anew': write again. [kais]\n"
