"""Who is calling: one module per mode, behind one small interface."""
