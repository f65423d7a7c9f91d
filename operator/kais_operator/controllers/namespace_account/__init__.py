"""The ServiceAccount of a namespace for people and their tools."""
