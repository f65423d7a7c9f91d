"""Query understanding: parse a query and expand its terms with the thesaurus."""
