"""The command line for working with blueprints, missions and knowledge."""
