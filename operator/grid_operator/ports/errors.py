"""What can go wrong between the operator and the world, by what to do about it.

    OperatorError
    ├── NotReady      something that is needed is not there yet: look again after its delay
    ├── Conflict      somebody else wrote in between: observe again, soon
    ├── Rejected      the API refuses what was asked: say so in a condition, look again rarely
    ├── Deposed       another operator may be at work: stop
    ├── Unheard       no watch hears anything: end, so that a new process tries
    └── Unavailable   the API does not answer, or asks for patience: back off
        └── Silent    the API answered, and then said nothing on a connection that is open

Only `reconcile` maps these to a condition or a delay.
"""

from __future__ import annotations


class OperatorError(Exception):
    """The root of everything a port raises on purpose."""


class NotReady(OperatorError):  # noqa: N818 - a state, not a fault
    """Something that is needed is not there yet."""

    def __init__(self, message: str, delay_s: float) -> None:
        super().__init__(message)
        self.delay_s = delay_s


class Conflict(OperatorError):  # noqa: N818 - Kubernetes' own word
    """The object changed, or was replaced, since it was read."""


class Rejected(OperatorError):  # noqa: N818 - Kubernetes' own word
    """The API server understood the request and refuses it (400, 403, 404, 405, 413, 422)."""

    def __init__(self, message: str, reason: str = "Rejected") -> None:
        super().__init__(message)
        self.reason = reason


class Deposed(OperatorError):  # noqa: N818 - a state, not a fault
    """This operator's Lease is lost or may have expired: nothing may be changed any more."""


class Unheard(OperatorError):  # noqa: N818 - a state, not a fault
    """No watch of this operator has heard anything for too long: it would miss every change."""


class Unavailable(OperatorError):  # noqa: N818 - a state, not a fault
    """The API server cannot be reached, is overloaded, or failed (429, 5xx, network)."""

    def __init__(self, message: str, retry_after_s: float = 0.0) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class Silent(Unavailable):
    """A connection that was open said nothing, and did not end when it should have."""
