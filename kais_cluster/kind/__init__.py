"""Kubernetes in Docker: a cluster with a node where Docker is."""
