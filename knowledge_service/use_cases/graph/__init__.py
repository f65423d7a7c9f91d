"""The graph as a view: entities and observations are facts, relations are links.

A name refers to the entity to which the alias `entity:NAME` resolves for the caller. Creating what
exists and deleting what is missing changes nothing and is no error, so that a call can be repeated.
Everything that a call stores is validated before its first write.
"""
