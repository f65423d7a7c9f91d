"""`python -m kais_cluster up|down|status|env|build|images|charts`; needs only Python's library."""

import argparse
import shlex
import signal
import sys
from collections.abc import Callable, Sequence

from kais_cluster import errors, operations, subprocesses

Command = Callable[[argparse.Namespace], int]


def _up(options: argparse.Namespace) -> int:
    operations.up(no_node=options.no_node)
    return 0


def _down(options: argparse.Namespace) -> int:
    operations.down()
    return 0


def _status(options: argparse.Namespace) -> int:
    status = operations.status()
    for line in status.lines():
        subprocesses.print_line(line)
    return 0 if status.is_up else 1


def _env(options: argparse.Namespace) -> int:
    for key, value in operations.env().items():
        subprocesses.print_line(f"export {key}={shlex.quote(value)}")
    return 0


def _build(options: argparse.Namespace) -> int:
    operations.build_binaries(options.names, no_node=options.no_node)
    return 0


def _images(options: argparse.Namespace) -> int:
    operations.build_images()
    if not options.no_load:
        operations.load_images()
    return 0


def _charts(options: argparse.Namespace) -> int:
    if options.uninstall:
        operations.uninstall()
    else:
        operations.install_charts()
    return 0


def parser() -> argparse.ArgumentParser:
    """Return the parser of the commands."""
    root = argparse.ArgumentParser(prog="python -m kais_cluster", description=__doc__)
    commands = root.add_subparsers(required=True, metavar="COMMAND")

    def add(name: str, run: Command, text: str) -> argparse.ArgumentParser:
        command = commands.add_parser(name, help=text, description=text)
        command.set_defaults(run=run)
        return command

    up_parser = add("up", _up, "bring a cluster up, or say that it is")
    add("down", _down, "stop the clusters of this user and remove their state")
    add("status", _status, "show the cluster; exit status 1 when it is not up")
    add("env", _env, 'print variables for a shell: eval "$(python -m kais_cluster env)"')
    build_parser = add("build", _build, "build the binaries that are missing or out of date")
    build_parser.add_argument("names", nargs="*", metavar="NAME", help="these only; also: kwok")
    for command in (up_parser, build_parser):
        command.add_argument("--no-node", action="store_true", help="a control plane alone")
    images_parser = add("images", _images, "build our images and load them into the cluster")
    images_parser.add_argument("--no-load", action="store_true", help="build only")
    charts_parser = add("charts", _charts, "install or upgrade our charts in the cluster")
    charts_parser.add_argument(
        "--uninstall", action="store_true", help="remove the release instead"
    )
    return root


def main(argv: Sequence[str]) -> int:
    """Run one command and return its exit status."""
    options = parser().parse_args(argv)
    run: Command = options.run
    try:
        return run(options)
    except errors.ClusterError as exc:
        sys.stderr.write(f"kais_cluster: {exc}\n")
        return 1


if __name__ == "__main__":
    # SIGTERM raises SystemExit, so that a background build that is ended also ends its compiler.
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    sys.exit(main(sys.argv[1:]))
