"""A Job of the local mode: a program that is run until it succeeds, or has failed too often."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from typing import TYPE_CHECKING, Final

from grid_operator.ports.errors import Rejected
from grid_operator.ports.local.pod import read_lines, start_program
from grid_operator.ports.local.program import program_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from grid_operator.api.objects import KubeObject
    from grid_operator.ports.local.program import LocalHost
    from grid_operator.ports.local.texts import LocalObjects

DEFAULT_BACKOFF_LIMIT: Final = 6
"""Kubernetes' own default of `backoffLimit`."""
KEPT_LINES: Final = 5
"""Of the output, for the message of a Job that failed."""
STOP_GRACE_S: Final = 10.0


class JobProcess:
    """Runs the program of one Job and says how it ended."""

    def __init__(
        self, job: KubeObject, objects: LocalObjects, host: LocalHost, ended: Callable[[], None]
    ) -> None:
        """Start it.

        Args:
            job: The Job.
            objects: Where ConfigMaps and Secrets are found.
            host: Where it runs.
            ended: Called when `condition` says how it ended.
        """
        self.condition: KubeObject | None = None
        """The Job's condition `Complete` or `Failed`, None while it runs."""
        self._job = job
        self._objects = objects
        self._host = host
        self._ended = ended
        self._stopping = False
        self._process: asyncio.subprocess.Process | None = None
        self._task = asyncio.create_task(self._run(), name=f"job {job['metadata']['name']}")

    async def stop(self) -> None:
        """End it, whatever it does. Idempotent."""
        self._stopping = True
        process = self._process
        if process is not None and process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.terminate()
            try:
                await asyncio.wait_for(process.wait(), STOP_GRACE_S)
            except TimeoutError:
                process.kill()
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        limit = int(self._job["spec"].get("backoffLimit", DEFAULT_BACKOFF_LIMIT))
        try:
            for _ in range(limit + 1):
                problem = await self._run_once()
                if self._stopping:
                    return
                if problem is None:
                    break
        except Rejected as error:
            problem = str(error)
        self.condition = (
            {"type": "Complete", "status": "True"}
            if problem is None
            else {"type": "Failed", "status": "True", "message": problem}
        )
        self._ended()

    async def _run_once(self) -> str | None:
        """Return what went wrong, None when nothing did."""
        meta, template = self._job["metadata"], self._job["spec"]["template"]
        pod = {"metadata": {**meta, **template.get("metadata", {})}, "spec": template["spec"]}
        pod["metadata"] |= {"name": meta["name"], "namespace": meta["namespace"]}
        program = program_of(pod, self._objects, self._host, {})
        kept: deque[str] = deque(maxlen=KEPT_LINES)

        def told(line: str) -> None:
            kept.append(line)
            self._host.print_log(meta["name"], line)

        self._process = await start_program(program)
        try:
            await read_lines(self._process.stdout, told)
            code = await self._process.wait()
        except asyncio.CancelledError:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()
            await self._process.wait()
            raise
        return None if code == 0 else "; ".join(kept) or f"exit code {code}"
