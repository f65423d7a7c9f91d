"""The cluster port over kr8s, and what the commands read and write through it."""
