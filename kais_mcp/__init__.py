"""Tools, resources and prompts of the Model Context Protocol over facts.

The knowledge service serves them at `/mcp`, and `kais mcp` over standard input and output. Only
`server` imports the SDK.
"""
