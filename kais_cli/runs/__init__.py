"""Runs: following one, its progress, logs and final report."""
