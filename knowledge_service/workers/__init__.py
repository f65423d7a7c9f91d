"""Background workers: threads that start and stop with the service."""
