"""Run untrusted templates, patterns and YAML in processes with limits that can be killed."""
