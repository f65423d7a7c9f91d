"""Two MCP servers for the API of a cluster: one reads a namespace, one repairs a deployment."""
