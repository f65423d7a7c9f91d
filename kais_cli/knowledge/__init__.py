"""The connection to the knowledge service, and the scopes and times that people type."""
