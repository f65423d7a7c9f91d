"""Decisions about Cells, and the parts that all pods of a cell share."""
