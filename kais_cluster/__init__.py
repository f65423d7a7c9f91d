"""Clusters to run kais on: a named kubeconfig, or a real single-node Kubernetes as plain processes."""
