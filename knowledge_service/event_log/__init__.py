"""The event log of the service, whatever database keeps it: events, payloads and their hashes."""
