"""What a request of the client can end with. Whether a retry helps is a property of the class."""

from __future__ import annotations


class ClientError(Exception):
    """The request was not done; the message names what to change or what is waited for."""


class UsageError(ClientError):
    """The command line, or a file that it names, is wrong."""


class MissingFileError(UsageError):
    """A file that the command line names is not there."""


class PassingError(ClientError):
    """The same request may be answered otherwise in a moment."""


class SilentError(PassingError):
    """A member gives no answer."""


class NoListenerError(SilentError):
    """The member's host refuses the connection, or has no address: no member runs there now."""


class ConflictError(PassingError):
    """The member answered 409: its present state does not allow the call."""


class FinalError(ClientError):
    """Another try would be answered the same."""


class OverdueError(FinalError):
    """What was waited for did not happen in time."""
