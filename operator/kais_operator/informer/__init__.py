"""Objects of the cluster in memory: filled by lists, watches and relists, read by all."""
