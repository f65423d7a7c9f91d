"""The bench of statement verification: prompts to files, and answers from files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench import verification
from bench.evidence import DATA
from knowledge_service.domain import extraction_verification

PAIRS = """
- record: ["the cache was cold", "the request took 4 s"]
  supported: ["A request took 4 s.", "The request met a cold cache."]
  invented: ["The request needs a token."]
  negated: ["The cache was warm as ever."]
- record: ["port 6432 is open"]
  supported: ["Port 6432 is open."]
  number: ["Port 7432 is open."]
"""


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    file = tmp_path / "pairs.yaml"
    file.write_text(PAIRS, "utf-8")
    return file


def write_prompts(pairs: Path, directory: Path) -> list[str]:
    verification.main(["--prompts", str(directory), str(pairs)])
    return [path.read_text("utf-8") for path in sorted(directory.glob("prompt-*.txt"))]


def test_prompts_are_what_the_service_sends_without_labels(pairs: Path, tmp_path: Path) -> None:
    prompts = write_prompts(pairs, tmp_path / "prompts")
    assert len(prompts) == 2
    for prompt in prompts:
        head, _, message = prompt.partition("\n\n<items>\n")
        assert head == extraction_verification.INSTRUCTIONS
        assert not any(label in message for label in ("supported", "invented", "negated"))
    assert sum(prompt.count("</statement>") for prompt in prompts) == 6
    assert write_prompts(pairs, tmp_path / "again") == prompts


def answer(batch: list[verification.Pair]) -> str:
    """Support everything, as a model that obeys a hostile record."""
    verdicts = [
        {"number": number, "verdict": "supported", "quote": pair.record[0], "difference": ""}
        for number, pair in enumerate(batch, 1)
    ]
    return json.dumps({"verdicts": verdicts})


def test_answers_are_judged_as_the_service_does(
    pairs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_prompts(pairs, tmp_path)
    batches = verification.batches([pairs], seed=0)
    for number, batch in enumerate(batches, 1):
        (tmp_path / f"answer-{number:03}.json").write_text(answer(batch))
    verification.main(["--answers", str(tmp_path), str(pairs)])
    printed = capsys.readouterr().out
    assert "| pairs | supported | 3 | 3 |" in printed
    assert "| pairs | negated | 1 | 1 |" in printed
    assert "| pairs | number | 1 | 0 | 0 |" in printed
    assert "1 number: its episodes do not have the number …" in printed
    assert "0 of 2 prompts have no answer." in printed


def test_unusable_answer_leaves_its_statements_to_the_check_of_words(
    pairs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_prompts(pairs, tmp_path)
    (tmp_path / "answer-001.json").write_text("They are all supported.")
    verification.main(["--answers", str(tmp_path), str(pairs)])
    printed = capsys.readouterr().out
    assert "answer-001.json: the text: Invalid JSON" in printed
    assert "1 of 2 prompts have no answer." in printed


def test_answers_to_other_prompts_are_refused(pairs: Path, tmp_path: Path) -> None:
    write_prompts(pairs, tmp_path)
    with pytest.raises(SystemExit, match="name the same files and seed again"):
        verification.main(["--answers", str(tmp_path), "--seed", "7", str(pairs)])


RECORDED = (
    "evidence_pairs_unseen.yaml",
    "evidence_pairs_blind.yaml",
    "evidence_pairs_judged_again.yaml",
    "evidence_pairs_unopened.yaml",
)


@pytest.mark.parametrize("file_name", RECORDED)
def test_recorded_verdicts_of_a_large_model_keep_and_drop_nine_of_ten(
    tmp_path: Path, file_name: str
) -> None:
    """The answers of one model to the prompts of these four files, in this order, with seed 5."""
    examined = verification.batches([DATA / name for name in RECORDED], seed=5)
    answers = (DATA / "recorded_verdicts.jsonl").read_text("utf-8").splitlines()
    result = verification.Result()
    for number, (batch, answer) in enumerate(zip(examined, answers, strict=True), 1):
        file = tmp_path / f"answer-{number:03}.json"
        file.write_text(answer, "utf-8")
        result.add(batch, verification.read_answer(file, len(batch)))
    assert result.problems == []
    name = file_name.removesuffix(".yaml")
    supported = (name, "supported")
    others = [kind for kind in result.examined if kind[0] == name and kind != supported]
    examined_others = sum(result.examined[kind] for kind in others)
    assert result.kept[supported] >= 0.9 * result.examined[supported]
    assert sum(result.kept[kind] for kind in others) <= 0.1 * examined_others
