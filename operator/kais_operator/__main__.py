"""`kais-operator`: builds the operator from its settings, and runs it until SIGTERM or SIGINT.

The only place where ports meet their adapters. If it cannot start, it prints one line on stderr.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sys
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass

from kais_operator import errors, logging_config, settings
from kais_operator.clock import SystemClock
from kais_operator.controllers import registry
from kais_operator.controllers.base import Controller
from kais_operator.informer import watch_targets
from kais_operator.informer.cache import Cache
from kais_operator.informer.cached_cluster import CachedCluster
from kais_operator.informer.list_client import ListClient
from kais_operator.informer.watch_heartbeat import WatchHeartbeat
from kais_operator.knowledge import client
from kais_operator.knowledge.sync_state import KnowledgeSyncState
from kais_operator.kubernetes import api_client, credentials, pod_exec
from kais_operator.kubernetes.cluster import ApiCluster
from kais_operator.manager.leader_election import LeaderElection
from kais_operator.manager.leader_session import ManagerDependencies
from kais_operator.manager.lifecycle import Lifecycle
from kais_operator.manager.metrics import Metrics
from kais_operator.manager.probes import HealthServer
from kais_operator.manager.write_refusals import WriteRefusalMemory
from kais_operator.ports import Containers, Knowledge, Placement, Renderer, World
from kais_operator.rendering.renderer import WAIT_S, WorkerRenderer
from kais_rendering.client import RenderClient
from kais_rendering.pool import RenderPool

_STARTING = (settings.SettingsError, errors.OperatorError, OSError)
logger = logging.getLogger("kais_operator")


@dataclass(frozen=True)
class _Shared:
    """What several parts of the operator need."""

    config: settings.Settings
    clock: SystemClock
    metrics: Metrics
    cluster_client: api_client.ApiClient
    leader_election: LeaderElection
    sync_state: KnowledgeSyncState
    cache: Cache


@contextlib.asynccontextmanager
async def build_operator(
    config: settings.Settings, controllers: Mapping[str, Controller]
) -> AsyncIterator[Lifecycle]:
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
        world = _build_world(
            shared, knowledge=knowledge_client, renderer=renderer, containers=pod_containers
        )
        dependencies = _build_dependencies(shared, world, controllers)
        lifecycle = Lifecycle(shared.leader_election, dependencies)
        health = HealthServer(
            shared.metrics,
            lambda: workers.problem() or lifecycle.problem(),
            host=config.metrics_host,
            port=config.metrics_port,
        )
        stack.push_async_callback(health.close)
        port = await health.start()
        logger.info("serving /healthz, /readyz and /metrics on port %s", port)
        yield lifecycle


async def _connect(config: settings.Settings, stack: contextlib.AsyncExitStack) -> _Shared:
    """Connect to the API server; `stack` closes the connection."""
    clock = SystemClock()
    cluster_client = await api_client.connect(config.kubeconfig)
    stack.push_async_callback(cluster_client.close)
    metrics = Metrics()
    metrics.export_requests(cluster_client.requests)
    return _Shared(
        config=config,
        clock=clock,
        metrics=metrics,
        cluster_client=cluster_client,
        leader_election=LeaderElection(
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


def _build_world(
    shared: _Shared, *, knowledge: Knowledge, renderer: Renderer, containers: Containers
) -> World:
    config = shared.config
    cluster = ApiCluster(
        shared.cluster_client, is_leader=shared.leader_election.is_leader, clock=shared.clock
    )
    return World(
        cluster=CachedCluster(cluster, shared.cache),
        knowledge=client.MonitoredKnowledge(
            knowledge,
            shared.sync_state,
            count_run=shared.metrics.record_run,
            count_extraction=shared.metrics.record_extraction,
        ),
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
        ),
        containers=containers,
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
        login=lambda: credentials.read_credentials(shared.cluster_client.configuration),
    )


async def run(config: settings.Settings) -> None:
    """Run the operator until SIGTERM or SIGINT.

    Raises:
        OperatorError, OSError: It could not start, or its watches ended.
    """
    async with build_operator(config, registry.CONTROLLERS) as lifecycle:
        lifecycle.stop_on_signals()
        await lifecycle.run()


def main() -> None:
    """Run as a program; exits with 1 and one line when it cannot start."""
    try:
        config = settings.from_environment()
        logging_config.configure(config.log_level, config.log_format)
        asyncio.run(run(config))
    except _STARTING as exc:
        sys.exit(f"kais-operator: {exc}")


if __name__ == "__main__":
    main()
