"""`kais blueprint validate|history|diff|stats|rollback|promote|stop`: revisions of a template."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kais.resources.blueprint_revision import BlueprintRevision
from kais_cli import errors
from kais_cli.blueprints import gitops, lookup, revisions
from kais_cli.blueprints import stats as blueprints_stats
from kais_cli.commands.blueprint import Name, app
from kais_cli.commands.options import DryRun, Output, dry_run_suffix
from kais_cli.exit_status import ExitStatus
from kais_cli.session import Session, command
from kais_cli.views import output, text_layout
from kais_cli.views.output import Format

File = Annotated[
    Path | None, typer.Option("--file", "-f", help="YAML or JSON file with a Blueprint.")
]


@command(app, "validate", needs_cluster=False)
def validate(
    session: Session,
    files: Annotated[
        list[str],
        typer.Option(
            "--file",
            "-f",
            metavar="FILE",
            help="YAML or JSON file with objects of kais, a folder of such files, or - for"
            " standard input; may be repeated.",
        ),
    ],
    *,
    recursive: Annotated[
        bool,
        typer.Option("--recursive", "-R", help="Also read the folders inside each folder."),
    ] = False,
) -> ExitStatus:
    """Compile blueprints without a cluster, and check the fields of other objects of kais.

    Reports every error with its file and line.
    """
    from kais_cli.blueprints import manifests  # noqa: PLC0415 (loads all kinds and the renderer)

    status = ExitStatus.SUCCEEDED
    for source in manifests.sources(session, files, recursive=recursive):
        try:
            results = list(manifests.validate(source))
        except errors.UsageError as exc:
            status = ExitStatus.USAGE
            session.note(f"error: {exc}")
            continue
        for result in results:
            if result.problems:
                status = ExitStatus.USAGE
                session.note(f"error: {result.error}")
            else:
                session.write(f"{result.subject}: {result.message}\n")
    return status


@command(app, "history")
def history(
    session: Session,
    name: Name,
    revision: Annotated[
        int | None, typer.Option(min=1, help="Show the template of this revision.")
    ] = None,
    output_: Output = Format.TABLE,
) -> ExitStatus:
    """List the revisions of a blueprint with their changes, compatibility and success rate.

    An asterisk marks the served revision. With `spec.rollout`, a line below has the canary. With
    --revision, show the template of that revision instead.
    """
    if revision is not None:
        return _show_revision(session, lookup.revision(session, name, number=revision), output_)
    blueprint, revision_list = revisions.list_revisions(session, name)
    if output_ is Format.NAME:
        bodies = [{"metadata": {"name": revision.metadata.name}} for revision in revision_list]
        session.write(output.format_names(bodies, kind="BlueprintRevision"))
    elif output_ is Format.TABLE:
        session.write(
            revisions.format_list(blueprint, revision_list, now=session.environment.now())
        )
    else:
        session.write(output.dump([revision.to_dict() for revision in revision_list], output_))
    return ExitStatus.SUCCEEDED


def _show_revision(session: Session, revision: BlueprintRevision, form: Format) -> ExitStatus:
    if form is Format.TABLE:
        session.write(revisions.format_revision(revision))
    else:
        session.write(output.dump_object(revision.to_dict(), form))
    return ExitStatus.SUCCEEDED


@command(app, "diff")
def diff(
    session: Session,
    name: Name,
    *,
    file: File = None,
    from_: Annotated[
        int | None,
        typer.Option("--from", min=1, help="Revision to compare from. Default: the served one."),
    ] = None,
    to: Annotated[
        int | None,
        typer.Option("--to", min=1, help="Revision to compare to. Default: the newest one."),
    ] = None,
    output_: Output = Format.TABLE,
) -> ExitStatus:
    """Show what changes between two revisions, or what a file would change.

    With a file, compares the template and the objects of each live instance.
    """
    from kais_cli.blueprints import diff as blueprints_diff  # noqa: PLC0415 (loads the renderer)

    if file is None:
        blueprint_diff = blueprints_diff.diff_revisions(session, name, older=from_, newer=to)
    else:
        blueprint_diff = blueprints_diff.diff_file(session, name, file=file, older=from_)
    if output_ in (Format.TABLE, Format.NAME):
        session.write(blueprint_diff.format_text())
    else:
        session.write(output.dump(blueprint_diff.to_dict(), output_))
    return ExitStatus.SUCCEEDED


@command(app, "stats")
def stats(
    session: Session,
    name: Name,
    *,
    by_parameter: Annotated[
        str | None,
        typer.Option(
            metavar="PARAMETER", help="Compare runs with and without knowledge by its values."
        ),
    ] = None,
    output_: Output = Format.TABLE,
) -> ExitStatus:
    """Show statistics of instances: in total, per revision, per parameter value, and by knowledge.

    Runs with knowledge are compared with those of the holdout (`knowledge.policy: Holdout`). TURNS,
    TOKENS and COST are medians with 95 % bootstrap intervals.
    """
    blueprint_stats = blueprints_stats.fetch_stats(session, name, by_parameter=by_parameter)
    if output_ in (Format.TABLE, Format.NAME):
        session.write(
            blueprints_stats.format_stats(blueprint_stats, name=name, namespace=session.namespace)
        )
    else:
        session.write(output.dump(blueprint_stats, output_))
    return ExitStatus.SUCCEEDED


@command(app, "rollback")
def rollback(
    session: Session,
    name: Name,
    *,
    to: Annotated[
        int | None,
        typer.Option(
            "--to",
            min=1,
            help="Revision to return to. Default: the served one, or if the Blueprint has its"
            " template already, the newest earlier one that compiles.",
        ),
    ] = None,
    dry_run: DryRun = False,
    output_: Output = Format.TABLE,
) -> ExitStatus:
    """Restore the template of an earlier revision, which new instances then get."""
    updated, number, changes = revisions.roll_back(session, name, target=to, dry_run=dry_run)
    manager = gitops.manager_of(updated)
    if manager is not None:
        session.note(
            f"warning: {manager} manages Blueprint/{session.namespace}/{name} and will undo this;"
            " restore the template in its source as well"
        )
    if output_ is not Format.TABLE:
        session.write(output.dump_object(updated, output_))
        return ExitStatus.SUCCEEDED
    checked = dry_run_suffix(dry_run=dry_run)
    session.write(f"{name}: template of revision {number} again{checked}\n")
    session.write(
        text_layout.indent(changes or "no change: the blueprint has that template already")
    )
    return ExitStatus.SUCCEEDED


@command(app, "promote")
def promote(session: Session, name: Name) -> ExitStatus:
    """Serve the canary of a blueprint to all new instances, also one that was stopped."""
    number = revisions.decide_canary(session, name, action="promote")
    session.write(f"{name}: revision {number} is to be promoted\n")
    return ExitStatus.SUCCEEDED


@command(app, "stop")
def stop(session: Session, name: Name) -> ExitStatus:
    """Stop the canary of a blueprint; new instances get the old revision."""
    number = revisions.decide_canary(session, name, action="stop")
    session.write(f"{name}: the canary, revision {number}, is to be stopped\n")
    return ExitStatus.SUCCEEDED
