"""What a test does with a cluster: kubectl, waiting, and the evidence of a failure."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from tests.e2e.provider.base import CommandError, ProviderError
from tests.e2e.provider.commands import COMMAND_TIMEOUT_S, run, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.e2e.provider.base import Provider

POLL_INTERVAL_S: Final = 0.2
SHOWN_POD_LINES: Final = 80
SHOWN_COMPONENT_LINES: Final = 25
SHOWN_LINE_CHARS: Final = 300
SYSTEM_NAMESPACES: Final = frozenset({"kube-system", "kube-public", "kube-node-lease"})


@dataclass(frozen=True, slots=True)
class Images:
    """The names under which the cluster knows the project's images."""

    member: str
    operator: str


class Kube:
    """kubectl and more, against one cluster."""

    def __init__(self, provider: Provider) -> None:
        self.provider = provider

    @property
    def kubeconfig(self) -> Path:
        return self.provider.kubeconfig

    def kubectl(
        self, *args: str, stdin: str | None = None, timeout_s: float = COMMAND_TIMEOUT_S
    ) -> str:
        """Return what kubectl printed.

        Raises:
            CommandError: It failed; the message carries what it said.
        """
        return run(*self.provider.kubectl, *args, stdin=stdin, timeout_s=timeout_s)

    def try_kubectl(self, *args: str, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
        """Return kubectl's exit code and output, whatever they are."""
        return subprocess.run(
            [*self.provider.kubectl, *args],
            input=stdin if stdin is not None else "",
            capture_output=True,
            text=True,
            timeout=COMMAND_TIMEOUT_S,
            check=False,
        )

    def json(self, *args: str) -> Any:
        """Return the parsed output of a kubectl command, run with `-o json`."""
        return json.loads(self.kubectl(*args, "-o", "json"))

    def apply(self, text: str) -> str:
        """Apply manifests, YAML or JSON."""
        return self.kubectl("apply", "-f", "-", stdin=text)

    def wait_for(
        self,
        condition: Callable[[], object],
        timeout_s: float,
        what: str = "the condition waited for",
    ) -> None:
        """Return as soon as the condition is true; a failing kubectl counts as not yet.

        Raises:
            WaitTimeoutError: It was not true in time.
        """

        def holds() -> bool:
            try:
                return bool(condition())
            except CommandError:
                return False

        wait_until(holds, what, timeout_s, interval_s=POLL_INTERVAL_S)

    def signal_pod(self, namespace: str, pod: str, signal: str) -> None:
        """Send a signal (`KILL`, `STOP`, `CONT`, ...) to every process of a pod."""
        self.provider.signal_pod(namespace, pod, signal)

    def evidence(self) -> Iterator[tuple[str, str]]:
        """Yield titled texts that show the state of the cluster after a failure."""
        for title, args in (
            ("pods", ("get", "pods", "-A", "-o", "wide")),
            ("events", ("get", "events", "-A", "--sort-by=.lastTimestamp")),
        ):
            yield title, self._shown(*args)
        yield from self._pod_evidence()
        for name, text in self.provider.logs():
            tail = text.splitlines()[-SHOWN_COMPONENT_LINES:]
            if tail:
                yield f"component {name}", "\n".join(line[:SHOWN_LINE_CHARS] for line in tail)

    def _pod_evidence(self) -> Iterator[tuple[str, str]]:
        try:
            pods = self.json("get", "pods", "-A")["items"]
        except ProviderError as error:
            yield "pods", str(error)
            return
        for pod in pods:
            namespace, name = pod["metadata"]["namespace"], pod["metadata"]["name"]
            if namespace in SYSTEM_NAMESPACES:
                continue
            scope = ("-n", namespace)
            yield f"describe {namespace}/{name}", self._shown(*scope, "describe", "pod", name)
            tail = ("--all-containers", f"--tail={SHOWN_POD_LINES}")
            for which in ((), ("--previous",)):
                text = self._shown(*scope, "logs", name, *tail, *which)
                yield f"logs {namespace}/{name} {' '.join(which)}", text

    def _shown(self, *args: str) -> str:
        done = self.try_kubectl(*args)
        return done.stdout + done.stderr
