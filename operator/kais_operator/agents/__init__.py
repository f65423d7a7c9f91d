"""Speaks A2A to cells: the only package of the operator that imports the SDK."""
