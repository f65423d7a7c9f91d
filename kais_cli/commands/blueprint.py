"""`kais blueprint`: list, render and use blueprints."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kais.resources.blueprint import Blueprint
from kais_cli import errors
from kais_cli.blueprints import lookup
from kais_cli.cluster import resource_access
from kais_cli.commands.options import (
    AllNamespaces,
    DryRun,
    ListOutput,
    NoHeaders,
    ObjectOutput,
    Output,
    ParameterFiles,
    ParameterValues,
    Selector,
    SortBy,
    Timeout,
    Watch,
    new_object_name,
    object_name,
    optional_object_name,
)
from kais_cli.exit_status import ExitStatus
from kais_cli.session import Session, command, group
from kais_cli.views import blueprint, output
from kais_cli.views.output import Format

app = group("blueprint", "Use and manage blueprints.")

Name = Annotated[
    str, typer.Argument(help="Name of the Blueprint.", callback=object_name("Blueprint"))
]
Values = Annotated[
    Path | None,
    typer.Option(
        "--values",
        help="YAML or JSON file of parameters, or - for standard input; the other options"
        " take precedence.",
    ),
]
InstanceName = Annotated[
    str | None,
    typer.Option(
        "--name",
        help="Name of the instance. Default: generated.",
        callback=new_object_name("BlueprintInstance"),
    ),
]
Revision = Annotated[
    int | None, typer.Option(min=1, help="Number of the revision. Default: the served one.")
]


@command(app, "list")
def list_blueprints(  # noqa: PLR0913 (one argument per option)
    session: Session,
    *,
    output_: ListOutput = "table",
    all_namespaces: AllNamespaces = False,
    selector: Selector = "",
    watch: Watch = False,
    sort_by: SortBy = "",
    no_headers: NoHeaders = False,
) -> ExitStatus:
    """List the blueprints of a namespace.

    SUCCESS is the share of the runs that count, and CI95 its 95 % confidence interval. Runs that
    were cancelled, or that the cluster could not run, do not count.
    """
    clock = session.environment.now
    table = resource_access.Table(
        blueprint.BLUEPRINT_HEADERS,
        lambda body: blueprint.blueprint_row(Blueprint.from_dict(body), now=clock()),
    )
    selection = resource_access.Selection(
        all_namespaces, selector, watch, sort_by, has_headers=not no_headers
    )
    return resource_access.write_list(session, "Blueprint", output_, selection, table=table)


@command(app, "show")
def show(session: Session, name: Name, output_: ObjectOutput = "table") -> ExitStatus:
    """Show a blueprint's parameters and the results of its instances."""
    form = output.parse_object_format(output_)
    body = resource_access.get(session, "Blueprint", name)
    return resource_access.write_object(
        session,
        body,
        form,
        detail=lambda body: blueprint.format_blueprint(Blueprint.from_dict(body)),
    )


@command(app, "render")
def render(  # noqa: PLR0913 (one argument per option)
    session: Session,
    blueprint: Annotated[
        str | None,
        typer.Argument(
            help="Name of the Blueprint. Not needed with a --file that has only one.",
            callback=optional_object_name("Blueprint"),
        ),
    ] = None,
    *,
    file: Annotated[
        str | None,
        typer.Option(
            "--file",
            "-f",
            metavar="FILE",
            help="Render the Blueprint of a YAML or JSON file, of a folder, or of standard input"
            " (-), without a cluster.",
        ),
    ] = None,
    set_: ParameterValues = None,
    set_file: ParameterFiles = None,
    values_: Values = None,
    name: InstanceName = None,
    revision: Revision = None,
    output_: Output = Format.YAML,
) -> ExitStatus:
    """Print the Formation and Mission that an instance would create; creates nothing.

    With --file, the namespace is that of --namespace or of the file, otherwise `default`.
    """
    from kais_cli.blueprints import manifests, parameter_values  # noqa: PLC0415 (the renderer)
    from kais_cli.blueprints import render as blueprints_render  # noqa: PLC0415 (the same)
    from kais_cli.runs import report  # noqa: PLC0415 (loads the models of runs)

    value_options = parameter_values.ValueOptions(set_ or (), set_file or (), values_)
    if file is not None:
        if revision is not None:
            raise errors.UsageError("--revision and --file exclude each other")
        if file == manifests.STDIN and value_options.stdin_count():
            raise errors.UsageError(
                "--file is standard input, so --values and --set-file need a file"
            )
        revision_object = manifests.read_revision(session, file, blueprint)
        subject = parameter_values.in_file(file, revision_object.spec.blueprint)
    elif blueprint is not None:
        revision_object = lookup.revision(session, blueprint, number=revision)
        subject = parameter_values.in_cluster(session.namespace, blueprint)
    else:
        raise errors.UsageError("give the name of a Blueprint, or a file with --file")
    resolved_values = parameter_values.read(
        session, revision_object.spec.parameters, value_options, subject=subject
    )
    objects = blueprints_render.render(
        revision_object,
        resolved_values,
        instance=name or report.generate_instance_name(session, revision_object.spec.blueprint),
        namespace=revision_object.metadata.namespace,
        subject=subject.name if file is not None else "",
    )
    if output_ is Format.NAME:
        session.write("".join(output.format_names([body], kind=body["kind"]) for body in objects))
    elif output_ is Format.JSON:
        session.write(output.dump(objects, output_))
    else:
        session.write("---\n".join(output.dump(body, Format.YAML) for body in objects))
    return ExitStatus.SUCCEEDED


@command(app, "use")
def use(  # noqa: PLR0913 (one argument per option)
    session: Session,
    blueprint: Name,
    *,
    set_: ParameterValues = None,
    set_file: ParameterFiles = None,
    values_: Values = None,
    name: InstanceName = None,
    revision: Revision = None,
    wait: Annotated[
        bool, typer.Option("--wait/--no-wait", help="Follow the mission to its end.")
    ] = True,
    timeout: Timeout = "30m",
    dry_run: DryRun = False,
    output_: Output = Format.TABLE,
) -> ExitStatus:
    """Use a blueprint, follow its mission, and print its result, recalled and new facts.

    The exit status reflects the outcome. The default name is `<blueprint>-<5 characters>`.
    `--revision` pins the instance to that revision.
    """
    from kais_cli.blueprints import instances, parameter_values  # noqa: PLC0415 (the renderer)
    from kais_cli.blueprints import render as blueprints_render  # noqa: PLC0415 (the same)
    from kais_cli.runs import report  # noqa: PLC0415 (loads the models of runs)

    follow_timeout = report.parse_timeout(timeout)
    revision_object = lookup.revision(session, blueprint, number=revision)
    resolved_values = parameter_values.read(
        session,
        revision_object.spec.parameters,
        parameter_values.ValueOptions(set_ or (), set_file or (), values_),
        subject=parameter_values.in_cluster(session.namespace, blueprint),
    )
    instance_name = name or report.generate_instance_name(session, blueprint)
    blueprints_render.require_size(
        revision_object, resolved_values, instance=instance_name, namespace=session.namespace
    )
    body = instances.manifest(
        session.namespace,
        blueprint,
        instance_name,
        resolved_values,
        revision=revision,
    )
    instance = instances.create(session, body, dry_run=dry_run)
    if dry_run:
        session.note("dry run: nothing was created")
    elif wait:
        return report.follow_instance(
            session,
            instance,
            form=output_,
            timeout=follow_timeout,
            revision=revision_object.spec.revision,
        )
    form = Format.NAME if output_ is Format.TABLE else output_
    session.write(output.dump_object(instance, form))
    return ExitStatus.SUCCEEDED
