"""The Kubernetes API as the operator reads, watches and changes it."""
