"""The one tool that changes something: the memory limit of a container, within a bound."""

from __future__ import annotations

from dataclasses import dataclass

from incident_team import deployments
from incident_team.deployments import DeploymentApi
from namespace_doctor.kubernetes_api import ClusterError

MIN_MEMORY_MI = 16
ROLLOUT_S = 60


@dataclass(frozen=True)
class FixerTools:
    """The tools of the server `fixer`. The Role of its ServiceAccount names the deployments."""

    deployments: DeploymentApi
    max_memory_mi: int

    def set_memory_limit(self, deployment: str, container: str, memory_mi: int) -> str:
        """Set the memory limit of a container in MiB, and wait until the new pods are available."""
        if not MIN_MEMORY_MI <= memory_mi <= self.max_memory_mi:
            raise ClusterError(
                f"memory_mi is {memory_mi}; it must be from {MIN_MEMORY_MI} to {self.max_memory_mi}"
            )
        before = self.deployments.get(deployment)
        limits = {
            str(body["name"]): deployments.memory_limit(body)
            for body in deployments.containers(before)
        }
        if container not in limits:
            raise ClusterError(
                f"deployment {deployment} has no container {container}; it has {', '.join(limits)}"
            )
        patched = self.deployments.set_memory_limit(deployment, container, f"{memory_mi}Mi")
        after = self.deployments.wait_until_rolled_out(patched, timeout_s=ROLLOUT_S)
        change = (
            f"deployment {deployment}, container {container}: the memory limit was "
            f"{limits[container]} and is {memory_mi}Mi"
        )
        if deployments.is_rolled_out(after):
            return f"{change}; all pods are available"
        return f"{change}; not all pods were available after {ROLLOUT_S} seconds"
