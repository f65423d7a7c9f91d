"""The operator: brings the cluster to what the resources declare."""
