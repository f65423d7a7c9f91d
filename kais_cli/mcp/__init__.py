"""`kais mcp`: the tools of the Model Context Protocol for one person, over stdio."""
