"""Mode Service: the mind of a cell as an A2A server.

Nothing outside of this package and of the tool that asks peers imports the A2A SDK.
"""
