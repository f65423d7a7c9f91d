"""The Kubernetes API: the client, and the ports that it implements."""
