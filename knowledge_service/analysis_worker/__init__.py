"""A process that analyses the texts of large batches while the service writes others."""
