"""Runs the reconcilers: leader election, watches, the work queue, metrics and probes."""
