"""Clusters to run kais on: a named kubeconfig, or a real Kubernetes as plain processes."""
