"""Runs a mind on pydantic-ai; nothing outside of this package imports that library."""
