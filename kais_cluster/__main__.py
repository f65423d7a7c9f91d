"""`python -m kais_cluster up|down|status|env|build|images|charts`, with Python's library alone."""
