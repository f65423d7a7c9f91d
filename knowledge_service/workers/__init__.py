"""What the service does beside its requests: threads that are started and stopped together."""
