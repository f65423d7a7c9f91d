"""The program in the pod of a cell with a mind: an agent that works with a model and tools."""
