"""The durable job that extracts facts from the episodes of a run."""
