"""The runs of one mission by number, among those that its history lists.

Positive numbers count from the oldest one, as `kais mission show` does. The history lists at most
10 earlier runs, so these numbers shift when it drops the oldest run. Negative numbers do not: like
those of `journalctl --boot`, they count back from the current run.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kais import outcomes
from kais_cli import errors
from kais_cli.exit_status import ExitStatus, of_outcome
from kais_cli.facts import tables as fact_tables
from kais_cli.knowledge import scope_context
from kais_cli.runs import report
from kais_cli.views import output, text_layout
from kais_cli.views.output import Format

if TYPE_CHECKING:
    from kais.resources.mission import Mission
    from kais_cli.session import Session
    from knowledge_client.models import Episode

_PAGE_SIZE = 200


def earlier_run(mission: Mission, number: int | None) -> str | None:
    """Return the id of an earlier run; None for the current one, which is the default.

    1 is the oldest run that the history lists, -1 the one before the current one.

    Raises:
        Refused: There is no run of that number; the message lists the existing numbers.
    """
    earlier = [entry.run_id for entry in mission.status.history if entry.run_id]
    current = len(earlier) + 1
    if number is None:
        return None
    position = current + number if number < 0 else number
    if position == current:
        return None
    if 1 <= position < current:
        return earlier[position - 1]
    back = f", or -1 to -{len(earlier)} back from it" if earlier else ""
    raise errors.Refused(
        f"{mission.ref} has no run {number}; it has 1 to {current}, and {current} is the current"
        f" one{back}"
    )


def report_outcome(session: Session, mission: Mission, run_id: str, *, form: Format) -> ExitStatus:
    """Write the outcome of an ended run; return its exit status.

    For programs, the fields are those of the report of a followed run, without the facts.

    Raises:
        Refused: The ledger has no outcome of the run.
    """
    namespace = mission.metadata.namespace
    with scope_context.client(session) as client:
        run = client.get_run(run_id, namespace=namespace)
    if run.outcome is None:
        raise errors.Refused(f"the ledger has no outcome of the run {run_id} of {mission.ref}")
    outcome, name = outcomes.Outcome(run.outcome), mission.metadata.name
    if form is Format.NAME:
        session.write(output.format_names([{"metadata": {"name": name}}], kind="Mission"))
    elif form is Format.TABLE:
        session.write(f"{name}, run {run_id}: {outcome}\n")
    else:
        tree = report.RunReport(name, outcome.value, run_id, run.attempts).to_dict()
        session.write(output.dump(tree, form))
    return of_outcome(outcome)


def write_record(session: Session, mission: Mission, run_id: str, attempt: int | None) -> None:
    """Write what the knowledge service recorded of a run whose pods are gone.

    Raises:
        Refused: There is no record of it.
    """
    session.note(f"the pods of the run {run_id} are deleted; this is its record")
    episodes = [
        episode
        for episode in _episodes(session, run_id, mission.metadata.namespace)
        if attempt in (None, episode.attempt)
    ]
    if not episodes:
        of_attempt = f" of attempt {attempt}" if attempt else ""
        raise errors.Refused(f"nothing{of_attempt} was recorded of the run {run_id}")
    for episode in episodes:
        head = (
            f"{fact_tables.format_timestamp(episode.at)}  attempt {episode.attempt}  {episode.type}"
        )
        session.write(f"{head}\n{text_layout.indent(episode.content)}")


def _episodes(session: Session, run_id: str, namespace: str) -> Iterator[Episode]:
    cursor = None
    with scope_context.client(session) as client:
        while True:
            page = client.list_episodes(
                run_id, namespace=namespace, cursor=cursor, limit=_PAGE_SIZE
            )
            yield from page.episodes
            cursor = page.cursor
            if cursor is None:
                return
