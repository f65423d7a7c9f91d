"""`kais doctor`: checks that everything is installed and compatible, and your permissions."""
