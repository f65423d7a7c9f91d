"""YAML files mean what they mean to kubectl."""

import json

import pytest

from kais_rendering import yaml_documents


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("n", False), ("y", True), ("yes", True), ("No", False), ("on", True), ("Off", False),
        ("TRUE", True), ("tRue", "tRue"), ("nO", "nO"), ("012", 10), ("-012", -10), ("08", 8),
        ("0777", 511), ("00", 0), ("0o14", 12), ("0x1F", 31), ("0b11", 3), ("1_000", 1000),
        ("1e3", 1000), ("1e-3", 0.001), ("1.5", 1.5), (".5", 0.5), ("1.", 1), ("09.5", 9.5),
        ("1:30", "1:30"), ("2024-01-01", "2024-01-01"), ("1.2.3", "1.2.3"), ("1-2", "1-2"),
        ("1e", "1e"), ("3m", "3m"), ("=", "="), ("~", None), ("null", None), ("Null", None),
        ("", None), ('"012"', "012"), ('"n"', "n"), ("-5", -5), ("+5", 5),
        ("18446744073709551615", 18446744073709551616),
    ],
)  # fmt: skip
def test_a_plain_scalar_is_what_kubectl_reads(text, value):
    read = yaml_documents.read(f"v: {text}")[0]["v"]
    assert (read, type(read)) == (value, type(value))


@pytest.mark.parametrize("text", [".inf", "-.Inf", ".nan"])
def test_a_number_that_json_cannot_hold_is_refused(text):
    with pytest.raises(yaml_documents.YamlRefused, match="JSON cannot hold what is in it"):
        yaml_documents.read(f"v: {text}")


def test_an_escape_of_half_a_character_is_refused_as_by_kubectl():
    message = (
        r"^the escape \\ud800 is half a character; write the character itself, or its escape with"
        r" \\U and eight digits$"
    )
    with pytest.raises(yaml_documents.YamlRefused, match=message) as refused:
        yaml_documents.read('a: 1\nb: ["whole: \\U0001F600", "half: \\ud800"]')
    assert (refused.value.line, refused.value.column) == (2, 26)


def test_the_escapes_of_an_emoji_in_json_are_one_character():
    text = json.dumps({"a \U0001f600": ["b \U0001f600\U0001f601"]})
    assert "\\ud83d\\ude00" in text
    assert yaml_documents.read(text) == [{"a \U0001f600": ["b \U0001f600\U0001f601"]}]


def test_half_a_character_beside_a_whole_one_is_refused():
    with pytest.raises(yaml_documents.YamlRefused, match=r"^the escape \\ude01 is half"):
        yaml_documents.read(r'{"a": "\ud83d\ude00\ude01"}')


def test_anchors_and_merge_keys_are_expanded():
    text = "a: &x {b: 1}\nc: {<<: *x, d: 2}"
    assert yaml_documents.read(text)[0]["c"] == {"b": 1, "d": 2}


TEXT = """\
kind: Other
---
spec:
  parameters:
    - {name: note, type: string}
    - name: question
      type: string
  cells:
    - name: writer
      env:
        - $if: "{{ extra }}"
          name: A
        - name: B
"""


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("spec", 3),
        ("spec.parameters[1].type", 7),
        ("parameters", 3),
        ("spec.parameters[name=question]", 6),
        ("spec.parameters[name=other]", 4),
        ("spec.parameters[7]", 4),
        ("spec.cells[0].name", 9),
        ("spec.cells[0].image", 9),
        ("spec.cells[0].env[1].name", 10),
        ("spec.cells.name", 8),
        ("", 3),
    ],
)
def test_the_line_of_a_path_is_that_of_its_deepest_part(path, line):
    assert yaml_documents.lines(TEXT, 1, [path]) == [line]


def test_a_document_that_does_not_exist_has_no_lines():
    assert yaml_documents.lines(TEXT, 2, ["spec"]) == [None]


def test_lines_of_a_text_that_is_not_yaml_are_refused():
    with pytest.raises(yaml_documents.YamlRefused):
        yaml_documents.lines("a: [", 0, ["a"])
