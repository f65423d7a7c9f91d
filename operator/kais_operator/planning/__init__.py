"""Parts of every decision: the Plan, children, conditions, annotations. Pure."""
