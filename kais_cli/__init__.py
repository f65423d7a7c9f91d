"""The command line: a person's way to blueprints, missions and knowledge."""
