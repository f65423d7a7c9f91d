"""Runs what users wrote (templates, patterns, YAML) in processes with limits that can be killed."""
