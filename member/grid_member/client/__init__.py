"""What `grid-member client` asks members over HTTP, for Jobs, hooks and tests of a Kubernetes pod.

One image, no shell, no curl. A preStop hook runs it at each stop of a pod, so this package needs
nothing but the standard library: loading aiohttp takes six times as long as all of this.
"""
