"""`kais-knowledge-client`: recall, remember, correct and record episodes, from any Python image.

The address, token and run come from the environment of the cell's pod. Exit status: 0 success,
1 rejected by the service, 2 invalid arguments, 7 service unreachable.
"""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, TextIO, get_args

import pydantic

from knowledge_client import errors, models, settings
from knowledge_client.models.facts import MINE
from knowledge_client.sync_client import KnowledgeClient

if TYPE_CHECKING:
    from collections.abc import Sequence

    import httpx

    from knowledge_client.settings import Settings

OK, REFUSED, USAGE, UNREACHABLE = 0, 1, 2, 7
_CONFIDENCE = 0.7  # for what a cell states; the default of the service is for people


def main(
    arguments: Sequence[str] | None = None,
    *,
    stdout: TextIO | None = None,
    stderr: TextIO | None = None,
    transport: httpx.BaseTransport | None = None,
) -> int:
    """Run one command and return its exit status; tests pass their own streams and transport."""
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

    recall = commands.add_parser("recall", help="print the facts that match a query, best first")
    recall.add_argument("query")
    recall.add_argument(
        "--limit", type=int, default=20, help="maximum number of facts (default 20)"
    )
    recall.add_argument("-o", "--output", choices=("text", "json"), default="text")
    recall.set_defaults(run=_recall)

    remember = commands.add_parser("remember", help="store a fact and print its id")
    remember.add_argument("text")
    remember.add_argument("--tag", action="append", default=[], help="tag of the fact; repeatable")
    remember.add_argument("--kind", default="fact")
    remember.add_argument(
        "--confidence", type=float, default=_CONFIDENCE, help="0 to 1 (default 0.7)"
    )
    remember.add_argument(
        "--subject", help="with --predicate: supersedes the fact with the same two keys"
    )
    remember.add_argument("--predicate")
    remember.add_argument(
        "--mine",
        action="store_true",
        help="only for this cell; by default for all cells of its Formation and Blueprint",
    )
    remember.set_defaults(run=_remember)

    episode = commands.add_parser("episode", help="add an entry to the record of this run")
    episode.add_argument("type", choices=get_args(models.EpisodeType))
    episode.add_argument("text")
    episode.add_argument("--signature", help="text that all errors of this kind share")
    episode.set_defaults(run=_episode)

    correct = commands.add_parser("correct", help="close a fact that is wrong or outdated")
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
    if result.reasons:
        return f"no facts: {'; '.join(result.reasons)}\n"
    if not result.facts:
        return "no facts match\n"
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
        scope=MINE if options.mine else None,
        source=source,
        run=environment.run_id,
        attempt=environment.attempt,
    )
    return client.remember(fact).fact_id + "\n"


def _episode(client: KnowledgeClient, options: argparse.Namespace, environment: Settings) -> str:
    if environment.run_id is None:
        raise errors.InvalidRequest(
            "an episode belongs to a run; set KAIS_RUN_ID (the pods of a mission have it)"
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
    return "recorded\n" if response.accepted else "already recorded\n"


def _correct(client: KnowledgeClient, options: argparse.Namespace, environment: Settings) -> str:
    del environment  # a correction does not depend on the run
    closed = client.correct(options.fact_id, models.CorrectIn(reason=options.reason))
    return f"{closed.fact_id}\n"


def _violations(failure: pydantic.ValidationError) -> list[str]:
    return [
        f"{'.'.join(str(part) for part in item['loc'])}: {item['msg']}"
        for item in failure.errors(include_url=False)
    ]


if __name__ == "__main__":
    sys.exit(main())
