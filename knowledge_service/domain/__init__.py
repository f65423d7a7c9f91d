"""Pure rules of the service.

Who sees what, what equals what, what a run taught. No I/O, no clock.
"""
