"""Connects a mind with its model: any OpenAI-compatible endpoint, Anthropic or Ollama."""

from __future__ import annotations

import httpx2
from pydantic_ai.models import Model

from agent_runtime.errors import AgentError
from agent_runtime.mind import MindConfig
from kais.agent_results import FailureClass
from kais.resources.cell_template import Provider

ConnectedModel = Model


def connect(mind: MindConfig, client: httpx2.AsyncClient) -> ConnectedModel:
    """Create the model of a mind; imports the SDK of its provider only.

    The SDKs get no key, because the client adds it, and do not repeat calls.

    Raises:
        AgentError: The mind needs an address and has none.
    """
    match mind.provider:
        case Provider.ANTHROPIC:
            return _connect_anthropic(mind, client)
        case Provider.OPENAI:
            return _connect_openai(mind, client)
        case Provider.OLLAMA:
            return _connect_ollama(mind, client)


# ruff: noqa: PLC0415 - a cell imports only its own provider, which takes a second and 30 MiB each
def _connect_anthropic(mind: MindConfig, client: httpx2.AsyncClient) -> Model:
    from anthropic import AsyncAnthropic
    from pydantic_ai.models.anthropic import AnthropicModel
    from pydantic_ai.providers.anthropic import AnthropicProvider

    sdk = AsyncAnthropic(
        api_key="unused",
        base_url=(mind.base_url or "https://api.anthropic.com").rstrip("/").removesuffix("/v1"),
        http_client=client,
        max_retries=0,
    )
    return AnthropicModel(mind.model, provider=AnthropicProvider(anthropic_client=sdk))


def _connect_openai(mind: MindConfig, client: httpx2.AsyncClient) -> Model:
    from openai import AsyncOpenAI
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider
    from pydantic_ai.providers.openai_compatible import OpenAICompatibleProvider

    url = mind.base_url or "https://api.openai.com/v1"
    sdk = AsyncOpenAI(api_key="unused", base_url=url, http_client=client, max_retries=0)
    if mind.base_url is None:
        return OpenAIChatModel(mind.model, provider=OpenAIProvider(openai_client=sdk))
    provider = OpenAICompatibleProvider("compatible", openai_client=sdk)
    return OpenAIChatModel(mind.model, provider=provider)


def _connect_ollama(mind: MindConfig, client: httpx2.AsyncClient) -> Model:
    from openai import AsyncOpenAI
    from pydantic_ai.models.ollama import OllamaModel
    from pydantic_ai.providers.ollama import OllamaProvider

    if mind.base_url is None:
        raise AgentError(
            FailureClass.INVALID_CONFIGURATION,
            "spec.mind.baseUrl: is needed for Ollama, such as http://ollama.ollama:11434/v1",
        )
    root = httpx2.URL(mind.base_url)
    url = root.copy_with(path="/v1") if root.path in ("", "/") else root
    sdk = AsyncOpenAI(api_key="unused", base_url=url, http_client=client, max_retries=0)
    return OllamaModel(mind.model, provider=OllamaProvider(openai_client=sdk))
