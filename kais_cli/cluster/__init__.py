"""The cluster port over HTTP, and what the commands read and write through it."""
