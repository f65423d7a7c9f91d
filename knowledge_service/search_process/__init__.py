"""The process that runs the searches of recalls, beside the process of the service."""
