"""The seven kinds of the Kubernetes API, one module each."""
