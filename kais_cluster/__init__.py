"""Clusters to run kais on: an existing one by kubeconfig, or a real Kubernetes on this machine."""
