"""The typed client of the knowledge service, for pods, the operator and the CLI."""
