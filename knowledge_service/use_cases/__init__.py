"""What a route does, told without HTTP: checks the caller's rights, then asks the store."""
