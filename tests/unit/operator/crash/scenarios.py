"""The wishes that operators are to fulfil in the crash tests, and where they die."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

CALL = ("before", "sent", "answered", "patched")
EFFECT = ("undone", "done")
PERSISTENCE = {
    "enabled": True,
    "backup": {"volume": {"size": "1Gi"}},
    "recoveryPolicy": "PartialRecoveryMostRecent",
}


@dataclass
class Scenario:
    """One wish, and what has to have been done exactly once when it is fulfilled."""

    kinds: tuple[str, ...]
    """The operations that have to succeed, in this order."""
    calls: dict[str, int]
    """How often each call was carried out."""
    pods: int
    """How many pods there have been."""
    moments: tuple[str, ...]
    wish: dict[str, Any] = field(default_factory=dict)
    annotations: dict[str, str] = field(default_factory=dict)
    stopped: bool = False
    """Start from a stopped cluster."""
    damaged: bool = False
    """Start with a member that waits, its data being damaged."""
    then: dict[str, str] = field(default_factory=dict)
    """Annotations that follow when the operation waits for its end, which does not come."""
    restored: bool = False
    """Start with the backup of a cluster that is gone, its volumes too."""
    outcome: str = "Succeeded"


def moments(**steps: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(f"{step}:{moment}" for step, found in steps.items() for moment in found)


SCENARIOS = {
    "ChangeState": Scenario(
        ("ChangeState",),
        {"changeState": 1},
        1,
        moments(Call=("entered", *CALL), Confirm=("entered",), End=("entered",)),
        wish={"clusterState": "Frozen"},
    ),
    "Stop": Scenario(
        ("Stop",),
        {"changeState": 1, "clusterShutdown": 1},
        1,
        moments(
            Passive=("entered", *CALL),
            Shutdown=("entered", *CALL),
            ScaleDown=("entered", *EFFECT),
            End=("entered",),
        ),
        wish={"runState": "Stopped"},
    ),
    "Start": Scenario(
        ("Stop", "Start"),
        {"changeState": 2, "clusterShutdown": 1},
        2,
        moments(
            ScaleUp=("entered", *EFFECT),
            AwaitReady=("entered",),
            Resume=("entered", *CALL),
            End=("entered",),
        ),
        wish={"runState": "Running"},
        stopped=True,
    ),
    "Restart": Scenario(
        ("Restart",),
        {"memberShutdown": 1},
        2,
        moments(
            ShutDownMember=("entered", *CALL),
            DeletePod=("entered", *EFFECT),
            AwaitReady=("entered",),
            End=("entered",),
        ),
        annotations={"restart": "r-1"},
    ),
    "Backup": Scenario(
        ("Backup",),
        {"backup": 1},
        1,
        moments(Begin=("entered", *CALL), AwaitFinish=("entered",), End=("entered",)),
        annotations={"backup": "b-1"},
    ),
    "BackupInterrupt": Scenario(
        ("Backup",),
        {"backup": 1, "backupInterrupt": 1},
        1,
        moments(Interrupt=("entered", *CALL), Finish=("entered",), End=("entered",)),
        annotations={"backup": "b-1"},
        then={"backup-interrupt": "i-1"},
        outcome="Interrupted",
    ),
    "Restore": Scenario(
        ("Restore",),
        {"backup": 1},
        2,
        moments(
            Copy=("entered", *EFFECT),
            CleanUp=("entered", *EFFECT),
            End=("entered",),
        ),
        wish={
            "persistence": PERSISTENCE,
            "restoreFrom": {"claimName": "demo-backup", "member": "demo-0"},
        },
        restored=True,
    ),
    "ApplyLive": Scenario(
        ("ApplyLive",),
        {"upload": 1},
        1,
        moments(Upload=("entered", *CALL), End=("entered",)),
        wish={"maps": [{"name": "late"}]},
    ),
    "PartialStart": Scenario(
        ("PartialStart",),
        {"partialStart": 1},
        1,
        moments(Call=("entered", *CALL), AwaitReady=("entered",), End=("entered",)),
        annotations={"partial-start": "p-1,acknowledge-data-loss=uid-demo"},
        damaged=True,
    ),
    "ForceStart": Scenario(
        ("ForceStart",),
        {"forceStart": 1},
        1,
        moments(Call=("entered", *CALL), AwaitReady=("entered",), End=("entered",)),
        annotations={"force-start": "f-1,acknowledge-data-loss=uid-demo"},
        damaged=True,
    ),
}
