"""What every decision is made of: the Plan, children, conditions, annotations. Pure."""
