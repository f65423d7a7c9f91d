"""What several kinds read."""
