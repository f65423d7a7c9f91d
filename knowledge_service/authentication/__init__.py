"""Authentication of callers: one module for each mode, behind one interface."""
