"""`kais-knowledge-client`: recall, remember, correct and note episodes from any image with Python.

Address, token and run come from the environment that a cell's pod has. Exit status: 0 done,
1 refused by the service, 2 used wrongly, 7 the service cannot be reached.
"""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, TextIO, get_args

import pydantic

from knowledge_client import errors, models, settings
from knowledge_client.sync_client import KnowledgeClient

if TYPE_CHECKING:
    from collections.abc import Sequence

    import httpx

    from knowledge_client.settings import Settings

OK, REFUSED, USAGE, UNREACHABLE = 0, 1, 2, 7
_CONFIDENCE = 0.7  # of what a cell states itself; the service's own default is for people


def main(
    arguments: Sequence[str] | None = None,
    *,
    stdout: TextIO | None = None,
    stderr: TextIO | None = None,
    transport: httpx.BaseTransport | None = None,
) -> int:
    """Run one command and return its exit status; streams and transport are replaced in tests."""
    options = _parser().parse_args(arguments)
    err = stderr or sys.stderr
    try:
        environment = settings.from_environment()
        with KnowledgeClient(transport=transport) as client:
            answer = options.run(client, options, environment)
    except pydantic.ValidationError as exc:
        err.write("error: " + "; ".join(_violations(exc)) + "\n")
        return USAGE
    except errors.KnowledgeUnavailable as exc:
        err.write(f"error: {exc}\n")
        return UNREACHABLE
    except errors.KnowledgeError as exc:
        err.write(f"error: {exc}\n")
        return REFUSED
    (stdout or sys.stdout).write(answer)
    return OK


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="kais-knowledge-client", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    recall = commands.add_parser("recall", help="print what is known about a question")
    recall.add_argument("query")
    recall.add_argument("--limit", type=int, default=20, help="at most this many facts (20)")
    recall.add_argument("-o", "--output", choices=("text", "json"), default="text")
    recall.set_defaults(run=_recall)

    remember = commands.add_parser("remember", help="store a fact and print its id")
    remember.add_argument("text")
    remember.add_argument("--tag", action="append", default=[], help="may be repeated")
    remember.add_argument("--kind", default="fact")
    remember.add_argument("--confidence", type=float, default=_CONFIDENCE, help="0 to 1 (0.7)")
    remember.add_argument("--subject", help="with --predicate: replaces what was known of the two")
    remember.add_argument("--predicate")
    remember.set_defaults(run=_remember)

    episode = commands.add_parser("episode", help="add a line to the record of this run")
    episode.add_argument("type", choices=get_args(models.EpisodeType))
    episode.add_argument("text")
    episode.add_argument("--signature", help="what errors of this sort have in common")
    episode.set_defaults(run=_episode)

    correct = commands.add_parser("correct", help="close a fact that is not true (any more)")
    correct.add_argument("fact_id")
    correct.add_argument("--reason", required=True)
    correct.set_defaults(run=_correct)
    return parser


def _recall(client: KnowledgeClient, options: argparse.Namespace, environment: Settings) -> str:
    question = models.RecallIn(
        query=options.query,
        limit=options.limit,
        run=environment.run_id,
        attempt=environment.attempt,
    )
    result = client.recall(question)
    if options.output == "json":
        return result.model_dump_json(indent=2, by_alias=True) + "\n"
    if not result.facts:
        return "nothing is known about this\n"
    return "".join(_line(fact) for fact in result.facts)


def _line(fact: models.RecalledFact) -> str:
    date = fact.recorded_at.date().isoformat()
    attributes = f"{fact.id} confidence={fact.confidence:.2f} source={fact.source.type} date={date}"
    return f"[{attributes}] {' '.join(fact.content.split())}\n"


def _remember(client: KnowledgeClient, options: argparse.Namespace, environment: Settings) -> str:
    refs = [("run", environment.run_id), ("mission", environment.mission_id)]
    source = models.Source(
        type="explicit_remember",
        refs=tuple(models.Ref(type=kind, id=value) for kind, value in refs if value),
    )
    fact = models.FactIn(
        content=options.text,
        kind=options.kind,
        tags=tuple(options.tag),
        confidence=options.confidence,
        subject=options.subject,
        predicate=options.predicate,
        source=source,
        run=environment.run_id,
        attempt=environment.attempt,
    )
    return client.remember(fact).fact_id + "\n"


def _episode(client: KnowledgeClient, options: argparse.Namespace, environment: Settings) -> str:
    if environment.run_id is None:
        raise errors.InvalidRequest(
            "an episode belongs to a run; set KAIS_RUN_ID, as a mission's pod has it"
        )
    episode = models.EpisodeIn(
        attempt=environment.attempt or 1,
        type=options.type,
        content=options.text,
        error_signature=options.signature,
    )
    response = client.add_episodes(
        models.EpisodesIn(run_id=environment.run_id, episodes=(episode,))
    )
    return "recorded\n" if response.accepted else "recorded before\n"


def _correct(client: KnowledgeClient, options: argparse.Namespace, environment: Settings) -> str:
    del environment  # a correction is the same in every run
    closed = client.correct(options.fact_id, models.CorrectIn(reason=options.reason))
    return f"{closed.fact_id}\n"


def _violations(failure: pydantic.ValidationError) -> list[str]:
    return [
        f"{'.'.join(str(part) for part in item['loc'])}: {item['msg']}"
        for item in failure.errors(include_url=False)
    ]


if __name__ == "__main__":
    sys.exit(main())
