"""The operator's settings, read from the environment once; the only reader of `os.environ`.

docs/reference/settings.md documents them. An invalid value is refused with the variable's name.
"""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

_IN_CLUSTER = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_HOME_CONFIG = Path("~/.kube/config")
_DEFAULT_URL = "http://127.0.0.1:8000"
_LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR")
_LOG_FORMATS = ("json", "text")
_MAX_PORT = 65535


class SettingsError(ValueError):
    """A setting is missing or invalid; the message names the variable."""


@dataclass(frozen=True)
class Settings:
    """Addresses of the cluster and the knowledge service, and how the operator runs.

    Attributes:
        kubeconfig: path, or paths joined by ":"; None uses the token of the pod.
        identity: holder of the Lease; unique per process.
        knowledge_url: address of the knowledge service for the operator.
        cell_knowledge_url: address of the same service for pods.
        watch_namespaces: empty for the whole cluster.
        check_image: image that looks for the files of fileExists checks.
        has_spawn_policy: whether the chart's admission policy for Cells is in force.
        allowed_additions: paths that others may add to Deployments and Services of ours.
        renderer_socket: socket of a renderer that runs as another user; None renders in child
            processes of the operator.
    """

    kubeconfig: str | None
    identity: str
    operator_namespace: str
    watch_namespaces: tuple[str, ...]
    knowledge_url: str
    cell_knowledge_url: str
    knowledge_token_file: str | None
    metrics_host: str
    metrics_port: int
    log_level: str
    log_format: str = "json"
    check_image: str = ""
    has_spawn_policy: bool = False
    allowed_additions: tuple[str, ...] = ()
    renderer_socket: Path | None = None


def from_environment(environ: Mapping[str, str] | None = None) -> Settings:
    """Read the settings.

    Raises:
        SettingsError: A value is invalid, or no cluster is configured.
    """
    env = os.environ if environ is None else environ
    url = _url(env, "KAIS_KNOWLEDGE_URL", _DEFAULT_URL)
    return Settings(
        kubeconfig=_kubeconfig(env),
        identity=f"{env.get('HOSTNAME') or socket.gethostname()}_{os.getpid()}",
        operator_namespace=env.get("KAIS_OPERATOR_NAMESPACE") or _own_namespace(),
        watch_namespaces=_names(env.get("KAIS_WATCH_NAMESPACES", "")),
        knowledge_url=url,
        cell_knowledge_url=_url(env, "KAIS_CELL_KNOWLEDGE_URL", url),
        knowledge_token_file=env.get("KAIS_KNOWLEDGE_TOKEN_FILE") or None,
        metrics_host=env.get("KAIS_METRICS_HOST") or "0.0.0.0",  # noqa: S104 (probes come from the node)
        metrics_port=_port(env.get("KAIS_METRICS_PORT") or "8080"),
        log_level=_level(env.get("KAIS_LOG_LEVEL") or "INFO"),
        log_format=_log_format(env.get("KAIS_LOG_FORMAT") or "json"),
        check_image=env.get("KAIS_CHECK_IMAGE")
        or f"localhost/kais/operator:{metadata.version('kais')}",
        has_spawn_policy=_boolean(env, "KAIS_SPAWN_POLICY"),
        allowed_additions=_paths(env.get("KAIS_ALLOWED_ADDITIONS", "")),
        renderer_socket=_socket(env.get("KAIS_RENDERER_SOCKET", "")),
    )


def _boolean(env: Mapping[str, str], name: str) -> bool:
    value = env.get(name) or "false"
    if value not in ("true", "false"):
        raise SettingsError(f"{name}: {value!r} is neither true nor false")
    return value == "true"


def _kubeconfig(env: Mapping[str, str]) -> str | None:
    paths = env.get("KUBECONFIG")
    if paths:
        return paths
    if env.get("KUBERNETES_SERVICE_HOST") and (_IN_CLUSTER / "token").exists():
        return None
    home = _HOME_CONFIG.expanduser()
    if home.exists():
        return str(home)
    raise SettingsError("no cluster: set KUBECONFIG, or run in a pod with a token")


def _own_namespace() -> str:
    try:
        return (_IN_CLUSTER / "namespace").read_text().strip()
    except OSError:
        return "kais-system"


def _names(text: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    for name in names:
        if not re.fullmatch(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", name):
            raise SettingsError(f"KAIS_WATCH_NAMESPACES: {name!r} is not the name of a namespace")
    return names


def _paths(text: str) -> tuple[str, ...]:
    paths = tuple(line.strip() for line in text.splitlines() if line.strip())
    for path in paths:
        if not path.startswith("spec."):
            raise SettingsError(
                f"KAIS_ALLOWED_ADDITIONS: {path!r} is not a path that starts with 'spec.'"
            )
    return paths


def _socket(text: str) -> Path | None:
    if text and not text.startswith("/"):
        raise SettingsError(f"KAIS_RENDERER_SOCKET: {text!r} is not an absolute path")
    return Path(text) if text else None


def _url(env: Mapping[str, str], name: str, default: str) -> str:
    url = env.get(name) or default
    if not re.fullmatch(r"https?://[^\s/]+.*", url):
        raise SettingsError(f"{name}: {url!r} is not an http or https address")
    return url.rstrip("/")


def _port(text: str) -> int:
    if not text.isdigit() or int(text) > _MAX_PORT:
        raise SettingsError(f"KAIS_METRICS_PORT: {text!r} is not a port; 0 selects a free one")
    return int(text)


def _level(text: str) -> str:
    if text.upper() not in _LEVELS:
        raise SettingsError(f"KAIS_LOG_LEVEL: {text!r} is not one of {', '.join(_LEVELS)}")
    return text.upper()


def _log_format(text: str) -> str:
    if text not in _LOG_FORMATS:
        raise SettingsError(f"KAIS_LOG_FORMAT: {text!r} is not one of {', '.join(_LOG_FORMATS)}")
    return text
