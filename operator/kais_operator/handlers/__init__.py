"""Glue between the watches and the work queue, and the wiring of the parts."""
