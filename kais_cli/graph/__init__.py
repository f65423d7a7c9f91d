"""The graph at the command line: its tables, and its files of JSON lines."""
