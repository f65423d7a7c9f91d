"""A doctor for the pods of one namespace: an example of a Task cell that remembers.

kubernetes_api  reads pods and events with the mounted ServiceAccount token
diagnose        pods and events -> diagnoses: pure, by the rules of `causes`
memory          facts that were given, facts that are new, the record of the run
report          what a person reads, at most 4 KiB
"""
