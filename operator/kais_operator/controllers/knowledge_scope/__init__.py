"""KnowledgeScopes: the settings of a scope in the knowledge service."""
