"""Judge the verification of statements by a model: `python -m bench.evidence verify`.

`--prompts DIR FILE...` writes the prompts that the service would send about the labelled pairs of
the files, of five statements each, as prompt-001.txt and so on. The order is that of `--seed`, and
no label is in them. `--answers DIR FILE...` reads the answer of any model to each of them from
answer-001.json and so on, as the service would, and prints which statements are kept: of each file
and kind, beside those that the check of words keeps alone. `--model URL NAME FILE...` asks a model
of an OpenAI-compatible endpoint instead; `--key-file` has its key.
"""

import argparse
import random
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path

from bench.figures import table
from bench.labelled_pairs import LABELS, Pair, pairs
from knowledge_service.domain import extraction_verdicts, extraction_verification
from knowledge_service.domain.extraction_answer import MalformedAnswer
from knowledge_service.domain.extraction_verification import Statement
from knowledge_service.extraction import statement_verification
from knowledge_service.extraction.accounted_calls import AccountedCalls, CallUsage
from knowledge_service.extraction.evidence import check
from knowledge_service.extraction.model_client import ModelClient
from knowledge_service.extraction.settings import ModelEndpoint
from knowledge_service.extraction.statement_verification import Cause, Verification

BATCH = 5


@dataclass
class Usage:
    """The `CallLedger` of a measurement: counts tokens."""

    input_tokens: int = 0
    output_tokens: int = 0
    calls: int = 0

    def reserve(self, cost: Decimal | None, budget: Decimal | None) -> bool:
        self.calls += 1
        return True

    def settle(self, reserved: Decimal | None, usage: CallUsage) -> None:
        self.input_tokens += usage.input_tokens
        self.output_tokens += usage.output_tokens


@dataclass
class Result:
    """What the verification did with the pairs that a model judged."""

    examined: Counter[tuple[str, str]] = field(default_factory=Counter)
    kept: Counter[tuple[str, str]] = field(default_factory=Counter)
    kept_by_check: Counter[tuple[str, str]] = field(default_factory=Counter)
    reasons: Counter[tuple[str, str]] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)

    def add(self, batch: Sequence[Pair], verification: Verification) -> None:
        self.problems += verification.problems.values()
        for place, pair in enumerate(batch):
            kind = (pair.file, pair.label)
            statement = statement_of(pair)
            defect = statement_verification.defect(statement, verification.verdicts.get(place))
            self.examined[kind] += 1
            self.kept[kind] += defect is None
            self.kept_by_check[kind] += check.missing_support(pair.statement, pair.record) is None
            if defect is not None:
                self.reasons[pair.label, re.sub(r"\d\S*", "…", defect.reason)] += 1

    def text(self) -> str:
        kinds = sorted(self.examined, key=lambda kind: (kind[0], LABELS.index(kind[1])))
        rows: list[tuple[object, ...]] = [
            (*kind, self.examined[kind], self.kept[kind], self.kept_by_check[kind])
            for kind in kinds
        ]
        for name in sorted({file for file, _ in kinds}):
            others = [kind for kind in kinds if kind[0] == name and kind[1] != "supported"]
            totals = [
                sum(count[kind] for kind in others)
                for count in (self.examined, self.kept, self.kept_by_check)
            ]
            rows.append((name, "all unsupported", *totals))
        head = ("pairs", "kind", "number", "kept", "kept by the check of words alone")
        reasons = [
            f"{count} {label}: {reason}" for (label, reason), count in self.reasons.most_common()
        ]
        return "\n".join(
            [table(head, rows), "", "Left out, by reason:", *reasons, "", *self.problems]
        )


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(
        "python -m bench.evidence verify",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    action = parser.add_mutually_exclusive_group(required=True)
    action.add_argument("--prompts", type=Path, metavar="DIR")
    action.add_argument("--answers", type=Path, metavar="DIR")
    action.add_argument("--model", nargs=2, metavar=("URL", "NAME"))
    parser.add_argument("--key-file", type=Path, metavar="FILE")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE")
    options = parser.parse_args(arguments)
    examined = batches(options.files, options.seed)
    if options.prompts:
        write_prompts(options.prompts, examined)
    elif options.answers:
        print(from_answers(options.answers, examined))
    else:
        url, name = options.model
        endpoint = ModelEndpoint(
            name=name, url=url.rstrip("/"), api="openai", model=name, key_file=options.key_file
        )
        print(from_model(endpoint, examined))


def batches(files: Sequence[Path], seed: int) -> list[list[Pair]]:
    """Return the pairs of files in a random order, in batches."""
    shuffled = [pair for file in files for pair in pairs(file)]
    random.Random(seed).shuffle(shuffled)  # noqa: S311 - the order of a measurement
    return [shuffled[at : at + BATCH] for at in range(0, len(shuffled), BATCH)]


def prompt(batch: Sequence[Pair]) -> str:
    """Return the instructions and the message for a batch."""
    message, places = extraction_verification.message([statement_of(pair) for pair in batch])
    missing = sorted(set(range(len(batch))) - set(places))
    if missing:
        raise SystemExit(f"a record of {batch[missing[0]].file} is too long for a prompt")
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


def from_answers(directory: Path, examined: Sequence[Sequence[Pair]]) -> str:
    result, missing = Result(), 0
    for number, batch in enumerate(examined, 1):
        written = file_of(directory, "prompt", number, "txt")
        if written.exists() and written.read_text("utf-8") != prompt(batch):
            raise SystemExit(f"{written} is about other pairs: name the same files and seed again")
        answer = file_of(directory, "answer", number, "json")
        if not answer.exists():
            missing += 1
            continue
        result.add(batch, read_answer(answer, len(batch)))
    return f"{result.text()}\n{missing} of {len(examined)} prompts have no answer."


def read_answer(file: Path, count: int) -> Verification:
    try:
        verdicts = extraction_verdicts.parse(file.read_text("utf-8"), count)
    except (MalformedAnswer, UnicodeDecodeError) as exc:
        return Verification(problems={Cause.CALL_FAILED: f"{file.name}: {exc}"})
    return Verification({number - 1: verdict for number, verdict in verdicts.items()})


def from_model(endpoint: ModelEndpoint, examined: Sequence[Sequence[Pair]]) -> str:
    result, usage = Result(), Usage()
    for batch, verification in asked(endpoint, examined, usage):
        result.add(batch, verification)
    tokens = f"{usage.input_tokens} input and {usage.output_tokens} output tokens"
    return f"{result.text()}\n{usage.calls} calls took {tokens}."


def asked(
    endpoint: ModelEndpoint, examined: Sequence[Sequence[Pair]], usage: Usage
) -> Iterator[tuple[Sequence[Pair], Verification]]:
    client = ModelClient()
    try:
        calls = AccountedCalls(client, endpoint, None, usage)
        for batch in examined:
            statements = [statement_of(pair) for pair in batch]
            yield batch, statement_verification.verify(calls, statements)
    finally:
        client.close()
