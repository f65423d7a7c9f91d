"""Settings are read once, with defaults, and a wrong one is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from kais_operator import settings

BASE = {"KUBECONFIG": "/k", "HOSTNAME": "host"}


def test_a_laptop_needs_only_a_kubeconfig():
    read = settings.from_environment(BASE)
    assert read.kubeconfig == "/k"
    assert read.operator_namespace == "kais-system"
    assert read.watch_namespaces == ()
    assert read.knowledge_url == read.cell_knowledge_url == "http://127.0.0.1:8000"
    assert (read.metrics_port, read.log_level, read.log_format) == (8080, "INFO", "json")
    assert read.identity.startswith("host_")


def test_every_setting_is_read():
    read = settings.from_environment(
        {
            **BASE,
            "KAIS_OPERATOR_NAMESPACE": "ops",
            "KAIS_WATCH_NAMESPACES": "demo, other",
            "KAIS_KNOWLEDGE_URL": "https://k.example/",
            "KAIS_CELL_KNOWLEDGE_URL": "http://knowledge:8000",
            "KAIS_KNOWLEDGE_TOKEN_FILE": "/t",
            "KAIS_METRICS_HOST": "127.0.0.1",
            "KAIS_METRICS_PORT": "0",
            "KAIS_LOG_LEVEL": "debug",
            "KAIS_LOG_FORMAT": "text",
            "KAIS_RENDERER_SOCKET": "/run/kais/renderer.sock",
            "KAIS_AGENT_IMAGE": "agent:7",
            "KAIS_MODEL_URLS": '{"ollama": "http://models:11434/v1/"}',
            "KAIS_MODEL_PRICES": '{"openai/*": {"input": "1", "output": "0.5"}}',
            "KAIS_AGENT_TELEMETRY": '{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318"}',
        }
    )
    assert (read.agent_image, read.model_urls) == (
        "agent:7",
        {"ollama": "http://models:11434/v1"},
    )
    assert read.agent_telemetry == {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318"}
    assert read.model_prices == '{"openai/*": {"input": "1", "output": "0.5"}}'
    assert read.renderer_socket == Path("/run/kais/renderer.sock")
    assert read.operator_namespace == "ops"
    assert read.watch_namespaces == ("demo", "other")
    assert read.knowledge_url == "https://k.example"
    assert read.cell_knowledge_url == "http://knowledge:8000"
    assert read.knowledge_token_file == "/t"  # noqa: S105 (a path)
    assert (read.metrics_host, read.metrics_port) == ("127.0.0.1", 0)
    assert (read.log_level, read.log_format) == ("DEBUG", "text")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("KAIS_KNOWLEDGE_URL", "knowledge:8000"),
        ("KAIS_CELL_KNOWLEDGE_URL", "ftp://x"),
        ("KAIS_METRICS_PORT", "http"),
        ("KAIS_METRICS_PORT", "70000"),
        ("KAIS_WATCH_NAMESPACES", "Demo"),
        ("KAIS_SPAWN_POLICY", "yes"),
        ("KAIS_LOG_LEVEL", "loud"),
        ("KAIS_LOG_FORMAT", "yaml"),
        ("KAIS_MODEL_URLS", "{"),
        ("KAIS_MODEL_URLS", "[]"),
        ("KAIS_MODEL_URLS", '{"oracle": "http://models"}'),
        ("KAIS_MODEL_URLS", '{"ollama": "models:11434"}'),
        ("KAIS_MODEL_PRICES", '{"openai/*": {"input": "1"}}'),
        ("KAIS_AGENT_TELEMETRY", '{"PATH": "/tmp"}'),
        ("KAIS_AGENT_TELEMETRY", '{"OTEL_EXPORTER_OTLP_HEADERS": "authorization=key"}'),
        ("KAIS_MODEL_PRICES", '{"openai/*": {"input": "1", "output": "cheap"}}'),
        ("KAIS_RENDERER_SOCKET", "renderer.sock"),
    ],
)
def test_a_wrong_setting_is_named(name, value):
    with pytest.raises(settings.SettingsError, match=f"^{name}: "):
        settings.from_environment({**BASE, name: value})


def test_without_a_cluster_it_says_what_to_set(monkeypatch, tmp_path):
    monkeypatch.setattr(settings, "_HOME_CONFIG", tmp_path / "none")
    with pytest.raises(settings.SettingsError, match="set KUBECONFIG"):
        settings.from_environment({})
