"""Text analysis: from the text of a fact or a query to index terms and their numbers."""
