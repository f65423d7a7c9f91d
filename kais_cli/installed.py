"""Where the chart puts what commands look for: its usual namespace, and the labels of its parts."""

NAMESPACE = "kais-system"
"""Looked at alone by who may not list everywhere; a release may stand in another one."""
OPERATOR = "app.kubernetes.io/name=kais,app.kubernetes.io/component=operator"
KNOWLEDGE = "app.kubernetes.io/name=kais,app.kubernetes.io/component=knowledge"
