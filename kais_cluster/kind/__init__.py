"""Kubernetes in Docker: a cluster with a node on machines with Docker."""
