"""The composition root: the only module where ports meet their adapters."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, replace

from kais_operator import settings
from kais_operator.agents.client import A2aAgents
from kais_operator.agents.transport import DirectTransport, ProxiedTransport
from kais_operator.apply import run_spans
from kais_operator.clock import SystemClock
from kais_operator.controllers.base import Controller
from kais_operator.informer import watch_targets
from kais_operator.informer.cache import Cache
from kais_operator.informer.list_client import ListClient
from kais_operator.informer.read_through_cluster import CachedCluster
from kais_operator.informer.watch_client import WatchClient
from kais_operator.informer.watch_heartbeat import WatchHeartbeat
from kais_operator.knowledge import client
from kais_operator.knowledge.sync_state import KnowledgeSyncState
from kais_operator.kubernetes import api_client, pod_exec, watch_credentials
from kais_operator.kubernetes.cluster import ApiCluster
from kais_operator.manager.leader_election_loop import ElectionLoop
from kais_operator.manager.leader_tasks import ManagerDependencies
from kais_operator.manager.lease_lock import LeaseLock
from kais_operator.manager.metrics import Metrics
from kais_operator.manager.probes import HealthServer
from kais_operator.manager.write_refusals import WriteRefusalMemory
from kais_operator.planning.agent_settings import AgentSettings
from kais_operator.ports import Agents, Containers, Knowledge, Placement, Renderer, World
from kais_operator.rendering.renderer import WAIT_S, WorkerRenderer
from kais_rendering.socket_client import RenderClient
from kais_rendering.worker_pool import RenderPool

logger = logging.getLogger("kais_operator")


@dataclass(frozen=True)
class _Shared:
    """The dependencies that several parts of the operator share."""

    config: settings.Settings
    clock: SystemClock
    metrics: Metrics
    cluster_client: api_client.ApiClient
    watch_connections: api_client.ApiClient
    leader_election: LeaseLock
    sync_state: KnowledgeSyncState
    cache: Cache


@contextlib.asynccontextmanager
async def build_operator(
    config: settings.Settings, controllers: Mapping[str, Controller]
) -> AsyncIterator[ElectionLoop]:
    """Build the operator, serve its health, and close everything at the end of the block.

    Raises:
        OperatorError, OSError: It could not start.
    """
    async with contextlib.AsyncExitStack() as stack:
        shared = await _connect(config, stack)
        knowledge_client = client.connect(
            config.knowledge_url, token_file=config.knowledge_token_file
        )
        stack.push_async_callback(knowledge_client.aclose)
        workers = RenderClient(config.renderer_socket) if config.renderer_socket else RenderPool()
        renderer = WorkerRenderer(workers, count=shared.metrics.record_render, wait_s=WAIT_S)
        stack.push_async_callback(renderer.close)
        await renderer.start()
        pod_containers = pod_exec.ApiContainers(
            shared.cluster_client, is_leader=shared.leader_election.is_leader, clock=shared.clock
        )
        stack.push_async_callback(pod_containers.close)
        knowledge = _monitored(shared, knowledge_client)
        is_outside = config.kubeconfig is not None
        transport = ProxiedTransport(shared.cluster_client) if is_outside else DirectTransport()
        agents = A2aAgents(
            transport,
            knowledge,
            follows=transport.streams,
            is_leader=shared.leader_election.is_leader,
            clock=shared.clock,
        )
        stack.push_async_callback(agents.close)
        world = _build_world(
            shared, knowledge, renderer=renderer, containers=pod_containers, agents=agents
        )
        if config.has_traces:
            spans = run_spans.start()
            stack.callback(spans.close)
            world = replace(world, run_spans=spans)
        dependencies = _build_dependencies(shared, world, controllers)
        election_loop = ElectionLoop(shared.leader_election, dependencies)
        health = HealthServer(
            shared.metrics,
            lambda: workers.problem() or election_loop.problem(),
            host=config.metrics_host,
            port=config.metrics_port,
        )
        stack.push_async_callback(health.close)
        port = await health.start()
        logger.info("serving /healthz, /readyz and /metrics on port %s", port)
        yield election_loop


async def _connect(config: settings.Settings, stack: contextlib.AsyncExitStack) -> _Shared:
    """Connect to the API server; `stack` closes the connection."""
    clock = SystemClock()
    cluster_client = await api_client.connect(config.kubeconfig)
    stack.push_async_callback(cluster_client.close)
    watch_connections = cluster_client.clone(is_bounded=False)
    stack.push_async_callback(watch_connections.close)
    metrics = Metrics()
    metrics.export_requests(cluster_client.requests)
    return _Shared(
        config=config,
        clock=clock,
        metrics=metrics,
        cluster_client=cluster_client,
        watch_connections=watch_connections,
        leader_election=LeaseLock(
            cluster_client,
            namespace=config.operator_namespace,
            identity=config.identity,
            clock=clock,
        ),
        sync_state=KnowledgeSyncState(clock),
        cache=Cache(
            labelled=watch_targets.CHILD_KINDS,
            owned=("ConfigMap",),
            operator_namespace=config.operator_namespace,
        ),
    )


def _monitored(shared: _Shared, knowledge: Knowledge) -> Knowledge:
    return client.MonitoredKnowledge(
        knowledge,
        shared.sync_state,
        shared.clock,
        count_run=shared.metrics.record_run,
        count_extraction=shared.metrics.record_extraction,
        count_usage=shared.metrics.record_usage,
    )


def _build_world(
    shared: _Shared,
    knowledge: Knowledge,
    *,
    renderer: Renderer,
    containers: Containers,
    agents: Agents,
) -> World:
    config = shared.config
    cluster = ApiCluster(
        shared.cluster_client, is_leader=shared.leader_election.is_leader, clock=shared.clock
    )
    return World(
        cluster=CachedCluster(cluster, shared.cache, clock=shared.clock),
        knowledge=knowledge,
        sync_state=shared.sync_state,
        renderer=renderer,
        clock=shared.clock,
        placement=Placement(
            config.operator_namespace,
            config.cell_knowledge_url,
            config.watch_namespaces,
            config.check_image,
            config.allowed_additions,
            has_spawn_policy=config.has_spawn_policy,
            agents=AgentSettings(
                config.agent_image,
                config.model_urls,
                config.model_prices,
                config.agent_telemetry,
            ),
            pod_policy=config.pod_policy,
        ),
        containers=containers,
        agents=agents,
        write_refusals=WriteRefusalMemory(),
    )


def _build_dependencies(
    shared: _Shared, world: World, controllers: Mapping[str, Controller]
) -> ManagerDependencies:
    return ManagerDependencies(
        world=world,
        sync_state=shared.sync_state,
        list_client=ListClient(shared.cluster_client),
        cache=shared.cache,
        controllers=controllers,
        metrics=shared.metrics,
        heartbeat=WatchHeartbeat(
            shared.cluster_client,
            namespace=shared.config.operator_namespace,
            is_leader=shared.leader_election.is_leader,
            clock=shared.clock,
        ),
        login=lambda: watch_credentials.read_credentials(shared.cluster_client.configuration),
        watch_client=WatchClient(shared.watch_connections),
    )
