"""Query understanding: parse a question and expand its terms with the thesaurus."""
