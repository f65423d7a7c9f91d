"""Decisions about Cells, and what every pod of a cell is."""
