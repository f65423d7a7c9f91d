"""The operator's settings, read from the environment once; the only reader of `os.environ`.

docs/reference/settings.md documents them. An invalid value is refused with the variable's name.
"""

from __future__ import annotations

import json
import os
import re
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any

from kais import pod_defaults, trace_context
from kais.errors import InvalidResource
from kais.forbidden_pod_fields import Allowed
from kais.pod_defaults import NO_POLICY, PodPolicy
from kais.resources.cell_template import Provider

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
        has_spawn_policy: whether the chart's admission policies are in force.
        allowed_additions: paths that others may add to our Deployments and Services.
        renderer_socket: socket of a renderer that runs as another user; None renders in child
            processes of the operator.
        agent_image: image of the agent runtime, for cells with a mind.
        model_urls: endpoints of models by provider, for minds that name none.
        model_prices: JSON with prices of models, as the agent runtime reads it.
        has_traces: whether the OTEL_* variables of the operator ask for traces.
        agent_telemetry: variables of OpenTelemetry for the pods of minds.
        pod_policy: defaults of the pods of cells, and the names that they may use.
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
    agent_image: str = ""
    model_urls: Mapping[str, str] = field(default_factory=dict)
    model_prices: str = ""
    has_traces: bool = False
    agent_telemetry: Mapping[str, str] = field(default_factory=dict)
    pod_policy: PodPolicy = NO_POLICY


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
        agent_image=env.get("KAIS_AGENT_IMAGE")
        or f"localhost/kais/agent:{metadata.version('kais')}",
        model_urls=_model_urls(env.get("KAIS_MODEL_URLS", "")),
        model_prices=_model_prices(env.get("KAIS_MODEL_PRICES", "")),
        has_traces=trace_context.is_exported(env),
        agent_telemetry=_agent_telemetry(env.get("KAIS_AGENT_TELEMETRY", "")),
        pod_policy=_pod_policy(env),
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


def _model_urls(text: str) -> Mapping[str, str]:
    urls = _json_object("KAIS_MODEL_URLS", text)
    for provider, url in urls.items():
        if provider not in set(Provider):
            provider_names = ", ".join(Provider)
            raise SettingsError(
                f"KAIS_MODEL_URLS: {provider!r} is not a provider; known: {provider_names}"
            )
        _url({"KAIS_MODEL_URLS": str(url)}, "KAIS_MODEL_URLS", "")
    return {provider: str(url).rstrip("/") for provider, url in urls.items()}


def _model_prices(text: str) -> str:
    for model, price in _json_object("KAIS_MODEL_PRICES", text).items():
        if not isinstance(price, dict) or set(price) != {"input", "output"}:
            raise SettingsError(f"KAIS_MODEL_PRICES: {model} needs the prices input and output")
        for name, value in price.items():
            if not re.fullmatch(r"\d+(\.\d+)?", str(value)):
                raise SettingsError(
                    f"KAIS_MODEL_PRICES: {name} of {model} is {value!r}, and not a price such as "
                    '"0.15"'
                )
    return text


def _agent_telemetry(text: str) -> Mapping[str, str]:
    variables = _json_object("KAIS_AGENT_TELEMETRY", text)
    for name in variables:
        if not re.fullmatch(r"OTEL_[A-Z0-9_]+", name):
            raise SettingsError(
                f"KAIS_AGENT_TELEMETRY: {name!r} is not a variable of OpenTelemetry, such as "
                "OTEL_EXPORTER_OTLP_ENDPOINT"
            )
        if name.endswith("HEADERS"):
            raise SettingsError(
                f"KAIS_AGENT_TELEMETRY: {name} would put credentials into the pods of cells; "
                "send to a collector in the cluster that needs none"
            )
    return {name: str(value) for name, value in variables.items()}


def _pod_policy(env: Mapping[str, str]) -> PodPolicy:
    defaults = _json_object("KAIS_CELL_DEFAULTS", env.get("KAIS_CELL_DEFAULTS", ""))
    namespaces = _json_object("KAIS_NAMESPACE_DEFAULTS", env.get("KAIS_NAMESPACE_DEFAULTS", ""))
    allowed = _json_object("KAIS_CELL_ALLOWED", env.get("KAIS_CELL_ALLOWED", ""))
    return PodPolicy(
        _cell_defaults("KAIS_CELL_DEFAULTS", defaults),
        {
            name: _cell_defaults(f"KAIS_NAMESPACE_DEFAULTS: {name}", tree)
            for name, tree in namespaces.items()
        },
        Allowed(
            priority_classes=_allowed_names(allowed, "priorityClassNames"),
            runtime_classes=_allowed_names(allowed, "runtimeClassNames"),
            toleration_keys=_allowed_names(allowed, "tolerationKeys"),
        ),
    )


def _cell_defaults(variable: str, tree: Any) -> dict[str, Any]:
    if not isinstance(tree, dict):
        raise SettingsError(f"{variable}: {tree!r} is not a JSON object")
    try:
        return pod_defaults.read_defaults(tree)
    except InvalidResource as exc:
        broken = "; ".join(str(violation) for violation in exc.violations)
        raise SettingsError(f"{variable}: {broken}") from exc


def _allowed_names(allowed: Mapping[str, Any], key: str) -> tuple[str, ...]:
    names = allowed.get(key, [])
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise SettingsError(f"KAIS_CELL_ALLOWED: {key} is {names!r}, and not a list of names")
    return tuple(names)


def _json_object(name: str, text: str) -> dict[str, Any]:
    try:
        value = json.loads(text) if text else {}
    except ValueError as exc:
        raise SettingsError(f"{name}: no JSON: {exc}") from exc
    if not isinstance(value, dict):
        raise SettingsError(f"{name}: {text!r} is not a JSON object")
    return value


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
