"""Judge the verification of statements by a model: `python -m bench.evidence verify`.

`--prompts DIR FILE...` writes the prompts that the service would send about the labelled pairs of
the files, of five statements each, as prompt-001.txt and so on. The order is that of `--seed`, and
no label is in them.
"""

import argparse
import random
from collections.abc import Sequence
from pathlib import Path

from bench.evidence import Pair, pairs
from knowledge_service.domain import extraction_verification
from knowledge_service.domain.extraction_verification import Statement

BATCH = 5


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(
        "python -m bench.evidence verify",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--prompts", type=Path, metavar="DIR", required=True)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE")
    options = parser.parse_args(arguments)
    write_prompts(options.prompts, batches(options.files, options.seed))


def batches(files: Sequence[Path], seed: int) -> list[list[Pair]]:
    """Return the pairs of files in a random order, in batches."""
    shuffled = [pair for file in files for pair in pairs(file)]
    random.Random(seed).shuffle(shuffled)  # noqa: S311 - the order of a measurement
    return [shuffled[at : at + BATCH] for at in range(0, len(shuffled), BATCH)]


def prompt(batch: Sequence[Pair]) -> str:
    """Return the instructions and the message for a batch."""
    message, count = extraction_verification.message([statement_of(pair) for pair in batch])
    if count < len(batch):
        raise SystemExit(f"a record of {batch[count].file} is too long for a prompt")
    return f"{extraction_verification.INSTRUCTIONS}\n\n{message}\n"


def statement_of(pair: Pair) -> Statement:
    return Statement(pair.statement, list(enumerate(pair.record, 1)))


def write_prompts(directory: Path, examined: Sequence[Sequence[Pair]]) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    for number, batch in enumerate(examined, 1):
        file_of(directory, "prompt", number, "txt").write_text(prompt(batch), "utf-8")
    print(f"{len(examined)} prompts in {directory}")


def file_of(directory: Path, kind: str, number: int, ending: str) -> Path:
    return directory / f"{kind}-{number:03}.{ending}"
