"""`kais doctor`: is everything there, does it fit together, and may you use it?"""
