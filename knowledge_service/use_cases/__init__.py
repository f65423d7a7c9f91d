"""What the service does, without HTTP: authorize the caller, then read or write the store."""
