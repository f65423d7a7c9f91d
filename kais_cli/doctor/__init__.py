"""`kais doctor`: checks the installation, its versions, and the user's permissions."""
