"""Speaks A2A to cells: the only room of the operator that knows the SDK."""
