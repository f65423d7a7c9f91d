"""Settings from the command line and the environment; the only module that reads them."""

from __future__ import annotations

import argparse
import ipaddress
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Literal, cast

from kais import trace_context

_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")

_AUTH = ("kubernetes", "token", "none")
_BOOLEANS = {"true": True, "false": False}
_LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR")
_ADMIN_COMMANDS = (
    ("verify", "", "walk the log's hash chain and check the file; status 1 if anything is wrong"),
    ("rebuild", "", "rebuild everything but the log from the log"),
    ("export", "--to", "write the whole store as lines of JSON; - is the standard output"),
    ("import", "--from", "take an export into a new database; - is the standard input"),
    (
        "backup",
        "--to",
        "copy the database, also while it is served, and verify it; folders get a dated copy",
    ),
    ("restore", "--from", "put a verified copy in the database's place"),
)
_DB_HELP = "the database (KAIS_DB; knowledge.db)"
_AUTH_HELP = (
    "authentication of callers: by the API server, by a token file, or none, on this machine"
    " only (KAIS_AUTH; kubernetes)"
)
_MCP_HELP = (
    "serve the Model Context Protocol at /mcp, which needs the extra mcp of the package"
    " (KAIS_MCP; false)"
)
_FILE_HELP = {"--to": "file to write, which must not exist", "--from": "file to read"}
_BUCKET_HELP = {
    "--to": "; for backup also a folder, or s3://BUCKET/FOLDER with the variables of S3 clients",
    "--from": "; for restore also s3://BUCKET/FOLDER/COPY, or the newest copy of s3://BUCKET/FOLDER",
}
_TAKES_BUCKET = frozenset({"backup", "restore"})
_BUCKET_SCHEME = "s3://"
_BUCKET_ADDRESS = re.compile(r"s3://[A-Za-z0-9._-]+(/[^?#@]*)?")
_KEEP_HELP = "with a folder or a bucket in --to: delete the oldest dated copies beyond this number"
_MAX_COPIES = 10_000
_MAX_DAYS = 36_500
_MAX_SECONDS = 3600
_MAX_FACTS = 100_000_000
_MAX_PORT, _MAX_PORT_DIGITS = 65535, 5


@dataclass(frozen=True)
class McpSettings:
    """Settings of the MCP endpoint.

    `origins` are those of web pages that may call it. `url` is the address that clients use, if a
    proxy stands between; None: the one of each request.
    """

    origins: tuple[str, ...] = ()
    url: str | None = None


@dataclass(frozen=True)
class Settings:
    """Settings of `serve`. `admin_subjects` are the usernames of administrators."""

    db: Path
    host: str
    port: int
    auth: Literal["kubernetes", "token", "none"]
    token_file: Path | None
    admin_subjects: frozenset[str]
    audience: str
    kube_api: str
    kube_token_file: Path
    kube_ca_file: Path
    log_level: str
    receipts_for: timedelta | None = None
    """How long receipts are kept; None: forever."""
    metrics_host: str = "127.0.0.1"
    metrics_port: int | None = None
    """The port of the metrics endpoint; None: no endpoint."""
    undeclared_facts: int = 50_000
    """Maximum number of live facts that agents may store in a scope without a KnowledgeScope."""
    reads_within: timedelta = timedelta(seconds=8)
    """How long one read of the store may take. A client waits 10 s for an answer."""
    recall_conversations: bool = True
    """Whether recall ranks by speakers, turns and sessions."""
    recall_weights: Path | None = None
    """A file of learned weights; None: the ones of the package."""
    mcp: McpSettings | None = None
    """Settings of the MCP endpoint; None: there is none."""
    people: str = "[]"
    """JSON list of what users and groups of the API server may do."""
    has_traces: bool = False
    """Whether the OTEL_* variables ask for traces."""


@dataclass(frozen=True)
class AdminCommand:
    """An admin command: verify, rebuild, export, import, backup or restore.

    `file` is the other file of the last four; `-` is standard input or output.
    """

    command: str
    db: Path
    file: Path
    keep: int | None = None
    """How many dated copies `backup` keeps in a folder or bucket; None: all."""
    bucket: str = ""
    """Address of a bucket that takes the place of `file`."""


def parse(
    arguments: Sequence[str], environment: Mapping[str, str] | None = None
) -> Settings | AdminCommand:
    """Parse the command line; options that it leaves out come from the environment.

    Exits with a usage message on an error, such as `--auth none` beyond loopback.
    """
    env = os.environ if environment is None else environment
    options = _parser(env).parse_args(arguments)
    if options.command != "serve":
        return _admin_command(options)
    parser: argparse.ArgumentParser = options.parser
    if options.auth == "none" and not _is_loopback(options.host):
        parser.error(
            f"--auth none makes every caller an admin, so it is refused on {options.host}; "
            "listen on 127.0.0.1 or use --auth kubernetes or token"
        )
    if options.auth not in _AUTH:
        parser.error(f"KAIS_AUTH: {options.auth!r} is unknown; give {' or '.join(_AUTH)}")
    if options.auth == "token" and not options.token_file:
        parser.error(
            "--auth token needs --token-file (KAIS_TOKEN_FILE): the file that names, for each "
            "token, who it stands for"
        )
    level = (env.get("KAIS_LOG_LEVEL") or "INFO").upper()
    if level not in _LEVELS:
        level_name = env["KAIS_LOG_LEVEL"]
        parser.error(f"KAIS_LOG_LEVEL: {level_name!r} is unknown; give {', '.join(_LEVELS)}")
    subjects = env.get("KAIS_ADMIN_SUBJECTS", "").split(",")
    return Settings(
        db=options.db,
        host=options.host,
        port=_port(options.port, parser),
        auth=cast("Literal['kubernetes', 'token', 'none']", options.auth),
        token_file=options.token_file,
        admin_subjects=frozenset(subject.strip() for subject in subjects if subject.strip()),
        audience=env.get("KAIS_AUDIENCE") or "kais-knowledge",
        kube_api=env.get("KAIS_KUBE_API") or _in_cluster_api(env),
        kube_token_file=Path(env.get("KAIS_KUBE_TOKEN_FILE") or _ACCOUNT / "token"),
        kube_ca_file=Path(env.get("KAIS_KUBE_CA_FILE") or _ACCOUNT / "ca.crt"),
        log_level=level,
        receipts_for=_receipts_for(env, parser),
        metrics_host=env.get("KAIS_METRICS_HOST") or options.host,
        metrics_port=_metrics_port(env, parser),
        undeclared_facts=_undeclared_facts(env, parser),
        reads_within=_reads_within(env, parser),
        recall_conversations=_recall_conversations(env, parser),
        recall_weights=Path(env["KAIS_RECALL_WEIGHTS"]) if env.get("KAIS_RECALL_WEIGHTS") else None,
        mcp=_mcp(options, env, parser),
        people=env.get("KAIS_PEOPLE") or "[]",
        has_traces=trace_context.is_exported(env),
    )


def _parser(env: Mapping[str, str]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="kais-knowledge", description="Remembers, recalls and corrects facts; keeps runs."
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {_version()}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    text = "serve the HTTP interface until stopped"
    serve = commands.add_parser("serve", help=text, description=text)
    serve.set_defaults(parser=serve)
    database = Path(env.get("KAIS_DB") or "knowledge.db")
    serve.add_argument("--db", type=Path, default=database, metavar="FILE", help=_DB_HELP)
    host, port = env.get("KAIS_HOST") or "127.0.0.1", env.get("KAIS_PORT") or "8000"
    serve.add_argument("--host", default=host, help="address to listen on (KAIS_HOST; 127.0.0.1)")
    serve.add_argument("--port", default=port, help="port to listen on (KAIS_PORT; 8000)")
    auth = env.get("KAIS_AUTH") or "kubernetes"
    serve.add_argument("--auth", choices=_AUTH, default=auth, help=_AUTH_HELP)
    tokens = env.get("KAIS_TOKEN_FILE")
    serve.add_argument(
        "--token-file",
        type=Path,
        default=Path(tokens) if tokens else None,
        metavar="FILE",
        help="with --auth token: JSON that says for each token who it stands for (KAIS_TOKEN_FILE)",
    )
    serve.add_argument("--mcp", action="store_true", help=_MCP_HELP)
    for name, option, text in _ADMIN_COMMANDS:
        command = commands.add_parser(name, help=text, description=text)
        command.add_argument("--db", type=Path, default=database, metavar="FILE", help=_DB_HELP)
        if option:
            command.add_argument(
                option,
                required=True,
                dest="file",
                metavar="FILE",
                help=_FILE_HELP[option] + (_BUCKET_HELP[option] if name in _TAKES_BUCKET else ""),
            )
        else:
            command.set_defaults(file="-")
        command.set_defaults(parser=command)
        if name == "backup":
            command.add_argument("--keep", type=_copies, metavar="N", help=_KEEP_HELP)
    return parser


def _admin_command(options: argparse.Namespace) -> AdminCommand:
    file, is_bucket = str(options.file), str(options.file).startswith(_BUCKET_SCHEME)
    if is_bucket and options.command not in _TAKES_BUCKET:
        options.parser.error(f"{options.command} takes no bucket, only a file")
    if is_bucket and not _BUCKET_ADDRESS.fullmatch(file):
        # Without the address: it may contain a key.
        options.parser.error(
            "the address of a bucket is s3://BUCKET or s3://BUCKET/FOLDER; keys are read from"
            " AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
        )
    return AdminCommand(
        options.command,
        options.db,
        Path(file),
        getattr(options, "keep", None),
        bucket=file if is_bucket else "",
    )


def _copies(value: str) -> int:
    if not (value.isascii() and value.isdecimal() and 0 < int(value) <= _MAX_COPIES):
        raise argparse.ArgumentTypeError(
            f"{value!r} is not a number of copies; use 1 to {_MAX_COPIES}"
        )
    return int(value)


def _version() -> str:
    from importlib import metadata  # noqa: PLC0415 - only an answer to --version needs it

    return metadata.version("kais")


def _receipts_for(env: Mapping[str, str], parser: argparse.ArgumentParser) -> timedelta | None:
    value = env.get("KAIS_RECEIPT_DAYS") or ""
    if not value:
        return None
    if not (value.isascii() and value.isdecimal() and 0 < int(value) <= _MAX_DAYS):
        parser.error(f"KAIS_RECEIPT_DAYS: {value!r} is not a number of days; use 1 to {_MAX_DAYS}")
    return timedelta(days=int(value))


def _reads_within(env: Mapping[str, str], parser: argparse.ArgumentParser) -> timedelta:
    value = env.get("KAIS_READ_SECONDS") or "8"
    if not (value.isascii() and value.isdecimal() and 0 < int(value) <= _MAX_SECONDS):
        parser.error(
            f"KAIS_READ_SECONDS: {value!r} is not a number of seconds; use 1 to {_MAX_SECONDS}"
        )
    return timedelta(seconds=int(value))


def _mcp(
    options: argparse.Namespace, env: Mapping[str, str], parser: argparse.ArgumentParser
) -> McpSettings | None:
    value = env.get("KAIS_MCP") or "false"
    if value not in _BOOLEANS:
        parser.error(f"KAIS_MCP: {value!r} is unknown; give {' or '.join(_BOOLEANS)}")
    if not (options.mcp or _BOOLEANS[value]):
        return None
    origins = env.get("KAIS_MCP_ORIGINS", "").split(",")
    url = env.get("KAIS_MCP_URL") or None
    if url and not url.startswith(("http://", "https://")):
        parser.error(f"KAIS_MCP_URL: {url!r} is not an address; begin with http:// or https://")
    return McpSettings(tuple(origin.strip() for origin in origins if origin.strip()), url)


def _recall_conversations(env: Mapping[str, str], parser: argparse.ArgumentParser) -> bool:
    value = env.get("KAIS_RECALL_CONVERSATIONS") or "true"
    if value not in _BOOLEANS:
        parser.error(
            f"KAIS_RECALL_CONVERSATIONS: {value!r} is unknown; give {' or '.join(_BOOLEANS)}"
        )
    return _BOOLEANS[value]


def _metrics_port(env: Mapping[str, str], parser: argparse.ArgumentParser) -> int | None:
    value = env.get("KAIS_METRICS_PORT") or ""
    is_number = value.isascii() and value.isdecimal() and len(value) <= _MAX_PORT_DIGITS
    if value and not (is_number and 0 < int(value) <= _MAX_PORT):
        parser.error(f"KAIS_METRICS_PORT: {value!r} is not a port; use 1 to {_MAX_PORT}")
    return int(value) if value else None


def _undeclared_facts(env: Mapping[str, str], parser: argparse.ArgumentParser) -> int:
    value = env.get("KAIS_UNDECLARED_FACTS") or "50000"
    is_count = value.isascii() and value.isdecimal() and len(value) <= len(str(_MAX_FACTS))
    if not (is_count and 0 < int(value) <= _MAX_FACTS):
        parser.error(
            f"KAIS_UNDECLARED_FACTS: {value!r} is not a number of facts; use 1 to {_MAX_FACTS}"
        )
    return int(value)


def _port(value: str, parser: argparse.ArgumentParser) -> int:
    port = (
        int(value)
        if value.isascii() and value.isdecimal() and len(value) <= _MAX_PORT_DIGITS
        else 0
    )
    if not 0 < port <= _MAX_PORT:
        parser.error(f"--port (KAIS_PORT): {value!r} is not a port; use 1 to {_MAX_PORT}")
    return port


def _in_cluster_api(env: Mapping[str, str]) -> str:
    host = env.get("KUBERNETES_SERVICE_HOST", "kubernetes.default.svc")
    port = env.get("KUBERNETES_SERVICE_PORT", "443")
    return f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
