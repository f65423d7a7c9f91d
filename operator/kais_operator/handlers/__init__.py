"""Glue between kopf and the work queue, and the wiring of the parts."""
