"""The ports' real implementations: kubernetes.aio, the knowledge client, processes, clock."""
