"""A team that reviews a change: a lead, and one developer for each aspect of the review."""
