"""The rules-based extractor: facts that the episodes of a run prove. Pure.

It has three rules over episodes: a check that failed with a message; an error signature that
recurred; a failed attempt and the change before a later one succeeded. Episodes that prove nothing
give no fact, and neither does a state, a bare exit code or a result. Facts that the run remembered
itself are not repeated in other words. A fact's text has no counts and no name of a run, so that
the next run with the same proof confirms the fact instead of adding another. `episode_parsing`
reads the episodes.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from kais import facts as kais_facts
from knowledge_client.models import Episode, Fact, Run
from knowledge_service.domain import episode_parsing, repetition
from knowledge_service.domain.facts import NewFact

MOST_FACTS = 7
_ENOUGH = 3
_RECURS = 2
_SENTENCE_CHARS = 600
_IS_HELPED_BY = "is helped by"
_HELPED = "' this helped: "


@dataclass(frozen=True)
class ExtractedFact:
    """A fact that the episodes prove, identified by (`subject`, `predicate`).

    `quoted` is the original text of the episodes, of which the content may show a part.
    """

    kind: str
    title: str
    content: str
    subject: str
    predicate: str
    confidence: float
    tags: tuple[str, ...]
    episodes: tuple[int, ...]
    quoted: tuple[str, ...] = ()


@dataclass(frozen=True)
class Outcome:
    """The extracted facts; `reason` explains why there are few or none."""

    facts: tuple[ExtractedFact, ...]
    reason: str | None


def extract(
    run: Run,
    episodes: Sequence[Episode],
    earlier: Mapping[str, int],
    *,
    remembered: Sequence[Fact] = (),
    limit: int = MOST_FACTS,
) -> Outcome:
    """Extract at most `limit` facts.

    `earlier` counts error signatures in earlier runs of the scope. `remembered` are the facts that
    the run itself stored there.
    """
    proven_facts = _unique(
        [*_what_helped(run, episodes), *_failed_checks(episodes), *_recurring(episodes, earlier)]
    )
    repetitions = repetition.find_repetitions(
        [fact.content for fact in proven_facts], map(repetition.text_of, remembered)
    )
    candidates = [
        fact
        for fact, is_repetition in zip(proven_facts, repetitions, strict=True)
        if not is_repetition
    ]
    selected = candidates[: min(limit, MOST_FACTS)]
    return Outcome(tuple(selected), _reason(len(episodes), len(selected), len(candidates)))


def is_confirmed(earlier_content: str, new: NewFact) -> bool:
    """Return whether an extracted fact confirms one with its subject and predicate.

    The quoted message may differ, for example in an address. But that another change helped after a
    failure is no evidence for the earlier change.
    """
    if new.predicate != _IS_HELPED_BY:
        return True
    changes = (text.partition(_HELPED)[2].casefold() for text in (earlier_content, new.content))
    return len(set(changes)) == 1


def _failed_checks(episodes: Sequence[Episode]) -> Iterable[ExtractedFact]:
    by_failure: dict[tuple[str, str], list[Episode]] = {}
    for episode in episodes:
        failed = episode_parsing.failed_check(episode)
        if failed:
            by_failure.setdefault(failed, []).append(episode)
    for (name, message), episodes_of_check in by_failure.items():
        yield ExtractedFact(
            kind=kais_facts.Kind.PITFALL,
            title=f"Check {name} fails"[:200],
            content=_sentence(f"The check {name} fails with: {message}"),
            subject=_key(f"check {name}: {episode_parsing.normalise_message(message)}"),
            predicate="fails",
            confidence=0.6,
            tags=("check", name[: kais_facts.LIMITS.tag]),
            episodes=tuple(e.seq for e in episodes_of_check),
            quoted=_quoted(episodes_of_check[0]),
        )


def _recurring(episodes: Sequence[Episode], earlier: Mapping[str, int]) -> Iterable[ExtractedFact]:
    for signature in episode_parsing.error_signatures(episodes):
        matching_episodes = [e for e in episodes if e.error_signature == signature]
        times = len(matching_episodes) + earlier.get(signature, 0)
        # A failed check is a separate fact, with the name of the check.
        if times < _RECURS or all(
            episode_parsing.failed_check(episode) for episode in matching_episodes
        ):
            continue
        yield ExtractedFact(
            kind=kais_facts.Kind.PITFALL,
            title=f"{signature} recurs (seen {times} times when first noted)"[:200],
            content=_sentence(
                _recurs(signature, episode_parsing.episode_message(matching_episodes[0]))
            ),
            subject=_key(signature),
            predicate="recurs",
            confidence=0.7,
            tags=("recurring-error", signature[: kais_facts.LIMITS.tag]),
            episodes=tuple(e.seq for e in matching_episodes),
            quoted=_quoted(matching_episodes[0]),
        )


def _recurs(signature: str, message: str) -> str:
    """Return a sentence with the message that contains the signature exactly once."""
    if not episode_parsing.names_error(message):
        return f"The error {signature} recurs"
    head, match, rest = message.partition(signature)
    if match and not head and (not rest or rest[0] in " :"):
        message = rest.lstrip(" :")
    elif match:
        return f"This error recurs: {message}"
    return f"The error {signature} recurs" + (f", seen as: {message}" if message else "")


def _what_helped(run: Run, episodes: Sequence[Episode]) -> Iterable[ExtractedFact]:
    """Find a failed attempt, a later one that succeeded, and the decision between them."""
    attempts = sorted({e.attempt for e in episodes})
    for attempt, next_attempt in itertools.pairwise(attempts):
        failures = [e for e in episodes if e.attempt == attempt and episode_parsing.is_failure(e)]
        if not failures or not _succeeded(run, episodes, next_attempt):
            continue
        last = failures[-1]
        change = _change(episodes, attempt, next_attempt, last.seq)
        if change is None:
            continue
        failure = episode_parsing.failure_message(last)
        yield ExtractedFact(
            kind=kais_facts.Kind.PATTERN,
            title=f"What helped after: {failure}"[:200],
            content=_sentence(f"After the failure '{_short(failure)}{_HELPED}{change.content}"),
            subject=_key(episode_parsing.normalise_message(failure)),
            predicate=_IS_HELPED_BY,
            confidence=0.75,
            tags=("what-helped",),
            episodes=(last.seq, change.seq),
            quoted=_quoted(last, change),
        )


def _change(
    episodes: Sequence[Episode], failed_attempt: int, passed_attempt: int, since: int
) -> Episode | None:
    """Return the last decision or feedback between a failure and the attempt that succeeded."""
    changes = [
        e
        for e in episodes
        if (e.attempt == failed_attempt and e.seq > since) or e.attempt == passed_attempt
        if e.type == "decision" or (e.type == "message" and "feedback" in e.content.casefold())
    ]
    return changes[-1] if changes else None


def _succeeded(run: Run, episodes: Sequence[Episode], attempt: int) -> bool:
    last = max(e.attempt for e in episodes)
    return attempt == last and run.outcome == "Succeeded"


def _quoted(*episodes: Episode) -> tuple[str, ...]:
    """Return the original texts of episodes, and the message of a check without its name."""
    texts = []
    for episode in episodes:
        failed = episode_parsing.failed_check(episode)
        texts += [episode.content, episode.error_signature, failed[1] if failed else None]
    return tuple(text for text in texts if text)


def _short(text: str) -> str:
    return text if len(text) <= _SENTENCE_CHARS // 3 else text[: _SENTENCE_CHARS // 3 - 1] + "…"


def _sentence(text: str) -> str:
    line = episode_parsing.collapse_whitespace(text)
    return line if len(line) <= _SENTENCE_CHARS else line[: _SENTENCE_CHARS - 1] + "…"


def _key(text: str) -> str:
    return text[: kais_facts.LIMITS.key]


def _unique(candidates: Iterable[ExtractedFact]) -> list[ExtractedFact]:
    return list(
        {(fact.subject, fact.predicate): fact for fact in reversed([*candidates])}.values()
    )[::-1]


_REST = "no {other}error recurred, and no {other}change came before a success"


def _reason(episodes: int, selected_count: int, candidate_count: int) -> str | None:
    if selected_count >= _ENOUGH:
        return None
    if candidate_count > selected_count:
        return (
            f"the record proves {candidate_count} reusable facts, {selected_count} were asked for"
        )
    if not episodes:
        return "the run left no episodes, so its record proves nothing"
    record = f"the record of {episodes} episode{'' if episodes == 1 else 's'}"
    if not selected_count:
        return f"{record} proves nothing to keep: no check failed, {_REST.format(other='')}"
    summary = f"{selected_count} reusable fact{'' if selected_count == 1 else 's'}"
    return f"{record} proves {summary}: no other check failed, {_REST.format(other='other ')}"
