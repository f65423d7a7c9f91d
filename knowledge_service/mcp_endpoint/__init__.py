"""The Model Context Protocol at `/mcp`; imported only when it is switched on."""
