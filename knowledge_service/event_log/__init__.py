"""The event log of the service, independent of the database: events, payloads and their hashes."""
