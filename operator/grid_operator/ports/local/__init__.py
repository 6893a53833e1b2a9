"""The local mode: the Kubernetes port on this machine, with pods as processes."""
