"""Cells: their account, their scope, their workload."""
