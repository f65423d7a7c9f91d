"""Reads: one pass over the cluster and the store per object, no writes."""
