"""What is done to a whole file: migrate, rebuild, verify, back up, export."""
