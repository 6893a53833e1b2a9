"""TLS between a socket's transport and a protocol that knows nothing of it.

    socket ◀──▶ transport of the loop ◀──▶ TlsConnection ◀──▶ application protocol

A `TlsConnection` is the protocol of the loop's transport and the transport of the application. It
keeps what asyncio's own TLS does not: each connection takes the context of the moment it was
accepted; everything written is encrypted at once, so that the write buffer is the loop's and empty
means that the kernel has every byte; a refused handshake tells the client why; and after
`write_eof` the client still has time to read what was sent.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import ssl
from typing import TYPE_CHECKING, Any, Final, cast

from grid_member.telemetry.logs import event

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from grid_member.security.tls import ServerTls

HANDSHAKE_TIMEOUT_S: Final = 10.0
READ_BYTES: Final = 64 << 10
WRITE_BYTES: Final = 256 << 10
"""How much is encrypted in one go; bounds the copies of a large value."""
_log: Final = logging.getLogger("grid.tls")
_MORE: Final = (ssl.SSLWantReadError, ssl.SSLWantWriteError)


class TlsListener:
    """What `loop.create_server` makes the protocols of a TLS port with."""

    def __init__(
        self,
        application: Callable[[], asyncio.Protocol],
        tls: ServerTls,
        handshake_timeout_s: float = HANDSHAKE_TIMEOUT_S,
        crowded: Callable[[], bool] = lambda: False,
    ) -> None:
        """Take what connections need; while it is crowded, further ones do not shake hands."""
        self._application = application
        self._crowded = crowded
        self._tls = tls
        self._handshake_timeout_s = handshake_timeout_s
        self._handshakes: set[TlsConnection] = set()

    def __call__(self) -> asyncio.Protocol:
        """Return the protocol of a new connection, on the context of now."""
        if self._crowded():
            return _NullProtocol()
        connection = TlsConnection(
            self._application,
            self._tls.context,
            self._handshake_timeout_s,
            self._handshakes.discard,
        )
        self._handshakes.add(connection)
        return connection

    @property
    def handshaking(self) -> int:
        """How many connections have not shaken hands yet; the application knows the others."""
        return len(self._handshakes)

    def close(self) -> None:
        """Drop the connections that the application does not know yet."""
        for connection in list(self._handshakes):
            connection.drop()


class _NullProtocol(asyncio.Protocol):
    """A connection that is not wanted, and that understands nothing before its handshake."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Close at once."""
        cast("asyncio.Transport", transport).abort()


class TlsConnection(asyncio.Protocol, asyncio.Transport):
    """One connection. The application is made when the handshake is done, not before."""

    def __init__(
        self,
        application: Callable[[], asyncio.Protocol],
        context: ssl.SSLContext,
        handshake_timeout_s: float,
        on_handshake: Callable[[TlsConnection], None],
    ) -> None:
        super().__init__()
        self._make_application = application
        self._handshake_timeout_s = handshake_timeout_s
        self._on_handshake = on_handshake
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._raw: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._application: asyncio.Protocol | None = None
        self._paused = False
        self._write_closed = False
        self._eof_passed = False

    # What the socket's transport calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Wait for the client's first message, but not for ever."""
        # Not checked: other event loops have transports of their own kind.
        self._raw = cast("asyncio.Transport", transport)
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(self._handshake_timeout_s, self._time_out)

    def data_received(self, data: bytes) -> None:
        """Shake hands, then hand decrypted bytes to the application."""
        if self._write_closed or self._eof_passed:
            return  # nobody would take it out again
        self._incoming.write(data)
        if self._application is None:
            self._shake_hands()
        if self._application is not None:
            self._read()

    def eof_received(self) -> bool:
        """Tell the application that the client is done; without one the connection closes."""
        if self._application is None:
            self._refuse("the client left")
            return False
        return self._pass_eof()

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell the application, should there be one."""
        self._end_handshake()
        application, self._application = self._application, None
        if application is not None:
            application.connection_lost(exc)

    def pause_writing(self) -> None:
        """Pass on that the socket's buffer is too full."""
        if self._application is not None:
            self._application.pause_writing()

    def resume_writing(self) -> None:
        """Pass on that there is room again."""
        if self._application is not None:
            self._application.resume_writing()

    # What the application calls: an asyncio.Transport

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Return what TLS knows, else what the socket's transport does."""
        if name == "ssl_object":
            return self._tls
        if name == "sslcontext":
            return self._tls.context
        if name == "peercert" and (found := self._tls.getpeercert()):
            return found
        return default if self._raw is None else self._raw.get_extra_info(name, default)

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        """Let another protocol take over."""
        if not isinstance(protocol, asyncio.Protocol):
            raise TypeError("must be an asyncio.Protocol")
        self._application = protocol

    def get_protocol(self) -> asyncio.BaseProtocol:
        """Return the application's protocol."""
        if self._application is None:
            raise ConnectionResetError("the connection is lost")
        return self._application

    def write(self, data: bytes | bytearray | memoryview[Any]) -> None:
        """Encrypt, and hand all of it to the socket's transport."""
        raw = self._raw
        if raw is None or raw.is_closing() or self._write_closed:
            return
        view = memoryview(data).cast("B")
        try:
            while view:
                view = view[self._tls.write(view[:WRITE_BYTES]) :]
                self._flush()
        except ssl.SSLError as error:
            self._break(error)

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview[Any]]) -> None:
        """Encrypt and send one after the other."""
        for data in list_of_data:
            self.write(data)

    def can_write_eof(self) -> bool:
        """Return True."""
        return True

    def write_eof(self) -> None:
        """Say in TLS and on the socket that nothing follows; what still comes is dropped."""
        raw = self._raw
        if raw is None or raw.is_closing() or self._write_closed:
            return
        self._say_goodbye()
        raw.write_eof()

    def close(self) -> None:
        """Close when what was written is sent."""
        raw = self._raw
        if raw is not None and not raw.is_closing():
            self._say_goodbye()
            raw.close()

    def abort(self) -> None:
        """Close at once."""
        if self._raw is not None:
            self._raw.abort()

    def is_closing(self) -> bool:
        """Tell whether the connection is closing or closed."""
        return self._raw is None or self._raw.is_closing()

    def pause_reading(self) -> None:
        """Hand nothing more to the application."""
        self._paused = True
        if self._raw is not None and not self._raw.is_closing():
            self._raw.pause_reading()

    def resume_reading(self) -> None:
        """Go on with what has come meanwhile, once the caller is done."""
        self._paused = False
        if self._raw is not None and not self._raw.is_closing():
            self._raw.resume_reading()
            asyncio.get_running_loop().call_soon(self._read)

    def is_reading(self) -> bool:
        """Tell whether what comes is handed on."""
        return self._raw is not None and self._raw.is_reading()

    def get_write_buffer_size(self) -> int:
        """Return how many encrypted bytes the kernel has not taken."""
        return 0 if self._raw is None else self._raw.get_write_buffer_size()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Set when the protocol is paused and resumed, in encrypted bytes."""
        if self._raw is not None:
            self._raw.set_write_buffer_limits(high=high, low=low)

    # Handshake

    def drop(self) -> None:
        """Close at once; for connections that the application does not know."""
        self._end_handshake()
        self.abort()

    def _shake_hands(self) -> None:
        try:
            self._tls.do_handshake()
        except _MORE:
            self._flush()
            return
        except (ssl.SSLError, OSError) as error:
            self._refuse(getattr(error, "reason", None) or type(error).__name__)
            return
        # TLS 1.3 has sent tickets by now.
        self._flush()
        self._end_handshake()
        raw = self._raw
        if raw is None or raw.is_closing():
            return
        self._application = self._make_application()
        self._application.connection_made(self)

    def _refuse(self, why: str) -> None:
        raw = self._raw
        if raw is None or raw.is_closing():
            return
        peer = raw.get_extra_info("peername")
        remote = str(peer[0]) if peer else None
        event(_log, logging.DEBUG, "TLS handshake failed", why=why, remote=remote)
        self._end_handshake()
        # The alert that tells the client.
        self._flush()
        raw.close()

    def _time_out(self) -> None:
        self._refuse("the client took too long")
        self.abort()

    def _end_handshake(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._on_handshake(self)

    # Reading and writing

    def _read(self) -> None:
        while not self._paused and not self._eof_passed and not self._write_closed:
            application = self._application
            if application is None:
                return
            try:
                data = self._tls.read(READ_BYTES)
            except _MORE:
                break
            except ssl.SSLZeroReturnError:
                data = b""
            except ssl.SSLError as error:
                self._break(error)
                return
            if not data:
                if not self._pass_eof():
                    self.close()
                return
            application.data_received(data)
        # What reading made TLS say, such as the answer to a change of keys.
        self._flush()

    def _pass_eof(self) -> bool:
        """Tell the application once; return whether it wants to go on writing."""
        if self._application is None:
            return False
        if self._eof_passed:
            return True
        self._eof_passed = True
        return bool(self._application.eof_received())

    def _break(self, error: ssl.SSLError) -> None:
        reason = error.reason or type(error).__name__
        event(_log, logging.DEBUG, "TLS connection broken", why=reason)
        self._flush()
        self.abort()

    def _say_goodbye(self) -> None:
        if not self._write_closed:
            self._write_closed = True
            # The other side has not said goodbye yet; nobody waits for that.
            with contextlib.suppress(ssl.SSLError, ValueError, OSError):
                self._tls.unwrap()
            self._flush()

    def _flush(self) -> None:
        data = self._outgoing.read()
        if data and self._raw is not None and not self._raw.is_closing():
            self._raw.write(data)
