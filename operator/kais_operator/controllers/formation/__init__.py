"""Formations: the Cells of a team and the maps they share."""
