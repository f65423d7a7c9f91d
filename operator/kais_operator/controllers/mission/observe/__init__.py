"""Reads of the cluster, the knowledge service and the renderer; no writes."""
