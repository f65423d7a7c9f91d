"""The file of learned weights: what is refused, and with which words."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from knowledge_service.search import ranker_version
from knowledge_service.search.pipeline import RankerConfig
from knowledge_service.search.ranking import weights
from knowledge_service.search.ranking.weights import InvalidWeights

VALUES = {name: 0.5 if name in weights.ADDITIVE_NAMES else -0.2 for name in weights.WEIGHT_NAMES}


def document(**changes: Any) -> bytes:
    """A file of weights with some values replaced, and the checksum of what it then holds."""
    values = {**VALUES, **changes}
    content = {"format": weights.FORMAT, "sha256": weights.digest_of(values), "weights": values}
    return json.dumps(content).encode()


def test_rendered_weights_are_read_again() -> None:
    learned = weights.parse(weights.render(VALUES))
    assert learned.additive["context.run"] == 0.5
    assert learned.factors["x_short"] == pytest.approx(0.8187, abs=1e-4)


def test_order_and_spacing_of_the_file_do_not_count() -> None:
    spaced = json.dumps(json.loads(weights.render(VALUES)), indent=8, sort_keys=True).encode()
    assert weights.parse(spaced).digest == weights.parse(weights.render(VALUES)).digest


REFUSED = {
    "empty": (b"", "is not JSON"),
    "cut": (weights.render(VALUES)[:-40], "is not JSON"),
    "binary": (b"\xff\xfe\x00", "is not JSON"),
    "nested too deep": (b"[" * 60_000, "is not JSON"),
    "a list": (b"[]", "is not a JSON object"),
    "another version": (b'{"format": 1}', "has format 1, and this version reads format 5"),
    "no version": (b"{}", "has format None, and this version reads format 5"),
    "no weights": (b'{"format": 5}', "has no object `weights`"),
    "a changed digit": (
        weights.render(VALUES).replace(b"0.5", b"0.6", 1),
        "is damaged: `sha256` does not match `weights`",
    ),
    "a feature of a later version": (document(windows=0.1), "has the unknown `windows`"),
    "a text": (document(x_short="much"), "`x_short` is 'much', not a number from -1.0 to 1.0"),
    "a boolean": (document(x_short=True), "`x_short` is True, not a number from -1.0 to 1.0"),
    "not a number": (document(x_short=float("nan")), "`x_short` is nan, not a number"),
    "negative": (
        document(**{"context.run": -0.1}),
        "`context.run` is -0.1, not a number from 0.0 to 3.0",
    ),
    "huge": (document(x_short=9), "`x_short` is 9, not a number from -1.0 to 1.0"),
}


@pytest.mark.parametrize(("data", "reason"), REFUSED.values(), ids=REFUSED)
def test_unusable_file_is_refused_with_the_reason(data: bytes, reason: str) -> None:
    with pytest.raises(InvalidWeights) as refused:
        weights.parse(data)
    assert reason in str(refused.value)


def test_missing_feature_is_named() -> None:
    values = {name: value for name, value in VALUES.items() if name != "context.run"}
    content = {"format": weights.FORMAT, "sha256": weights.digest_of(values), "weights": values}
    with pytest.raises(InvalidWeights, match=r"lacks `context\.run`"):
        weights.parse(json.dumps(content).encode())


def test_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidWeights, match="cannot be read: No such file or directory"):
        weights.read(tmp_path / "none.json")


def test_file_without_an_end_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "weights.json"
    file.write_bytes(b" " * 70_000)
    with pytest.raises(InvalidWeights, match="is larger than 65536 bytes"):
        weights.read(file)


def test_other_weights_are_another_ranker() -> None:
    learned = weights.parse(weights.render(VALUES))
    named = ranker_version.version_of(RankerConfig(weights=learned))
    assert named != ranker_version.RANKER
    assert named.startswith(f"{ranker_version.FORMULA}-")


def test_shipped_weights_name_the_ranker() -> None:
    assert ranker_version.version_of(RankerConfig()) == ranker_version.RANKER
