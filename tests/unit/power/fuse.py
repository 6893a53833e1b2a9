"""The kernel's side of FUSE, as far as members and their servers use it: requests and answers.

Opening, closing and flushing a file are refused once as not implemented: the kernel does without
them. Writes come at once, as it keeps none of its own; it remembers what it read, and may, for
nobody else changes anything. Structures: include/uapi/linux/fuse.h, version 7.31.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import stat
import struct
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeAlias

from tests.unit.power.durability import PAGE_BYTES, ROOT, Disk, Node

if TYPE_CHECKING:
    from pathlib import Path

Answer: TypeAlias = bytes | memoryview | None
_DEVICE: Final = "/dev/fuse"
_VERSION: Final = (7, 31)
_BIG_WRITES: Final = 1 << 5
_WRITE_BYTES: Final = 128 << 10
_BUFFER_BYTES: Final = _WRITE_BYTES + PAGE_BYTES
_BLOCKS: Final = 1 << 24
"""Of a page each: that it is full is the matter of other tests."""
_REMEMBERED_S: Final = 1
_MS_NOSUID, _MS_NODEV, _MNT_DETACH = 2, 4, 2
_IN: Final = struct.Struct("<IIQQIIIHH")
_OUT: Final = struct.Struct("<IiQ")
_ATTRIBUTES: Final = struct.Struct("<6Q10I")
_ENTRY: Final = struct.Struct("<QQQQII")
_SETATTR: Final = struct.Struct("<IIQQQQQQIIIIIIII")
_IO: Final = struct.Struct("<QQIIQII")
_DENTRY: Final = struct.Struct("<QQII")
_SET_MODE, _SET_UID, _SET_GID, _SET_SIZE = 1, 2, 4, 8
_KEEP_SIZE: Final = 1
_NO_REPLACE: Final = 1
_libc: Final = ctypes.CDLL(None, use_errno=True)


class Mount:
    """A disk that the kernel shows at a place until its power fails."""

    def __init__(self, place: Path, disk: Disk) -> None:
        """Mount it; `serve` is to be called whenever there is something to read."""
        self.disk = disk
        self._place = os.fsencode(place)
        self._buffer = bytearray(_BUFFER_BYTES)
        self._listed: dict[int, list[tuple[bytes, Node]]] = {}
        self._listings = 0
        self._asked: dict[int, _Handler] = {
            1: self._lookup,
            3: lambda node, _, __: _attributes_out(node),
            4: self._setattr,
            8: self._mknod,
            9: self._mkdir,
            10: lambda node, _, data: self._remove(node, data, directory=False),
            11: lambda node, _, data: self._remove(node, data, directory=True),
            12: lambda node, _, data: self._rename(node, data, 8),
            15: self._read,
            16: self._write,
            17: lambda *_: struct.pack(
                "<5Q10I", *[_BLOCKS] * 5, PAGE_BYTES, 255, PAGE_BYTES, *[0] * 7
            ),
            20: self._sync,
            26: self._init,
            27: self._opendir,
            28: self._readdir,
            29: self._releasedir,
            30: self._sync,
            43: self._fallocate,
            45: lambda node, _, data: self._rename(node, data, 16),
        }
        self.fd = os.open(_DEVICE, os.O_RDWR | os.O_CLOEXEC | os.O_NONBLOCK)
        options = (
            f"fd={self.fd},rootmode=40000,user_id=0,group_id=0,allow_other,default_permissions"
        )
        flags = _MS_NOSUID | _MS_NODEV
        if _libc.mount(b"grid-power", self._place, b"fuse", flags, options.encode()):
            os.close(self.fd)
            raise OSError(ctypes.get_errno(), "cannot mount FUSE")

    def unmount(self) -> None:
        """Fail everything that waits for an answer, and be gone."""
        os.close(self.fd)
        _libc.umount2(self._place, _MNT_DETACH)

    def serve(self) -> bool:
        """Answer one request; False: there was none."""
        try:
            length = os.readv(self.fd, [self._buffer])
        except BlockingIOError:
            return False
        except OSError as error:
            # It was interrupted before it was read, or somebody unmounted.
            return error.errno in {errno.ENOENT, errno.EINTR}
        _, code, unique, number, uid, gid, *_ = _IN.unpack_from(self._buffer)
        with memoryview(self._buffer)[_IN.size : length] as data:
            failed, answer = self._answered(code, number, (uid, gid), data)
        if failed or answer is not None:
            body = answer or b""
            size = _OUT.size + len(body)
            with contextlib.suppress(FileNotFoundError):  # nobody waits for it any more
                os.writev(self.fd, [_OUT.pack(size, -failed, unique), body])
        return True

    def _answered(
        self, code: int, number: int, owner: tuple[int, int], data: memoryview
    ) -> tuple[int, Answer]:
        """Return an error and an answer: None, there is to be none."""
        if code in _WITHOUT_ANSWER:
            self._forget(code, number, data)
            return 0, None
        handler, node = self._asked.get(code), self.disk.nodes.get(number or ROOT)
        if handler is None:
            return errno.ENOSYS, None
        if node is None:
            return errno.ESTALE, None
        try:
            return 0, handler(node, owner, data)
        except OSError as error:
            return error.errno or errno.EIO, None

    def _forget(self, code: int, number: int, data: memoryview) -> None:
        if code == 2:
            self.disk.forget(number, struct.unpack_from("<Q", data)[0])
        elif code == 42:
            (count,) = struct.unpack_from("<I", data)
            for one, lookups in struct.iter_unpack("<QQ", data[8 : 8 + 16 * count]):
                self.disk.forget(one, lookups)

    def _init(self, _: Node, __: tuple[int, int], data: memoryview) -> bytes:
        (readahead,) = struct.unpack_from("<I", data, 8)
        return struct.pack(
            "<IIIIHHIIHHI7I", *_VERSION, readahead, _BIG_WRITES, 64, 48, _WRITE_BYTES, 1, *[0] * 10
        )

    # Names

    def _lookup(self, node: Node, _: tuple[int, int], data: memoryview) -> bytes:
        return _entry_out(self.disk.found(node, _name(data)))

    def _mknod(self, node: Node, owner: tuple[int, int], data: memoryview) -> bytes:
        (mode,) = struct.unpack_from("<I", data)
        if not stat.S_ISREG(mode):
            raise OSError(errno.EPERM, "files and directories alone")
        made = self.disk.made(node, _name(data[16:]), mode & 0o7777, owner, directory=False)
        return _entry_out(made)

    def _mkdir(self, node: Node, owner: tuple[int, int], data: memoryview) -> bytes:
        (mode,) = struct.unpack_from("<I", data)
        made = self.disk.made(node, _name(data[8:]), mode & 0o7777, owner, directory=True)
        return _entry_out(made)

    def _remove(self, node: Node, data: memoryview, *, directory: bool) -> bytes:
        self.disk.remove(node, _name(data), directory=directory)
        return b""

    def _rename(self, node: Node, data: memoryview, begin: int) -> bytes:
        number, flags = struct.unpack_from("<QI", bytes(data[:12]))
        source, target, _ = bytes(data[begin:]).split(b"\0", 2)
        flags = flags if begin == 16 else 0
        if flags & ~_NO_REPLACE:
            raise OSError(errno.EINVAL, "nothing but a rename")
        directory = self.disk.nodes[number]
        if flags and target in directory.entries:
            raise OSError(errno.EEXIST, "exists")
        self.disk.rename((node, source), (directory, target))
        return b""

    def _opendir(self, _: Node, __: tuple[int, int], ___: memoryview) -> bytes:
        self._listings += 1
        return struct.pack("<QII", self._listings, 0, 0)

    def _readdir(self, node: Node, _: tuple[int, int], data: memoryview) -> bytes:
        listing, offset, size, *_rest = _IO.unpack_from(data)
        if offset == 0 or listing not in self._listed:
            itself = [(b".", node), (b"..", node)]
            self._listed[listing] = [*itself, *node.entries.items()]
        found = b""
        for place, (name, one) in enumerate(self._listed[listing][offset:], offset + 1):
            kind = (stat.S_IFDIR if one.is_directory else stat.S_IFREG) >> 12
            entry = _DENTRY.pack(one.number, place, len(name), kind) + name
            entry += bytes(-len(entry) % 8)
            if len(found) + len(entry) > size:
                break
            found += entry
        return found

    def _releasedir(self, _: Node, __: tuple[int, int], data: memoryview) -> bytes:
        self._listed.pop(struct.unpack_from("<Q", data)[0], None)
        return b""

    # Files

    def _setattr(self, node: Node, _: tuple[int, int], data: memoryview) -> bytes:
        valid, _, _, size, *_rest, mode, _, uid, gid, _ = _SETATTR.unpack_from(data)
        if valid & _SET_MODE:
            node.mode = mode & 0o7777
        if valid & (_SET_UID | _SET_GID):
            former = node.owner
            node.owner = (
                uid if valid & _SET_UID else former[0],
                gid if valid & _SET_GID else former[1],
            )
        if valid & _SET_SIZE:
            self.disk.resize(node, size)
        return _attributes_out(node)

    def _read(self, node: Node, _: tuple[int, int], data: memoryview) -> bytes:
        _, offset, size, *_rest = _IO.unpack_from(data)
        return bytes(node.content[offset : offset + size])

    def _write(self, node: Node, _: tuple[int, int], data: memoryview) -> bytes:
        _, offset, size, _, _, flags, _ = _IO.unpack_from(data)
        written = data[_IO.size : _IO.size + size]
        self.disk.write(node, offset, written, synced=bool(flags & os.O_DSYNC))
        return struct.pack("<II", size, 0)

    def _sync(self, node: Node, _: tuple[int, int], __: memoryview) -> bytes:
        self.disk.sync(node)
        return b""

    def _fallocate(self, node: Node, _: tuple[int, int], data: memoryview) -> bytes:
        _, offset, length, mode, _ = struct.unpack_from("<QQQII", data)
        if mode & ~_KEEP_SIZE:
            raise OSError(errno.EOPNOTSUPP, "space alone")
        if not mode and len(node.content) < offset + length:
            self.disk.resize(node, offset + length)
        return b""


_Handler: TypeAlias = Callable[[Node, tuple[int, int], memoryview], bytes]
_WITHOUT_ANSWER: Final = (2, 36, 42)
"""What is forgotten, one by one or many, and interruptions: every answer is quick."""


def _name(data: memoryview) -> bytes:
    return bytes(data).partition(b"\0")[0]


def _attributes(node: Node) -> bytes:
    kind = stat.S_IFDIR if node.is_directory else stat.S_IFREG
    size = len(node.content)
    seconds, rest_ns = divmod(node.changed_ns, 10**9)
    links = 2 if node.is_directory else int(node.named)
    return _ATTRIBUTES.pack(
        *(node.number, size, -(-size // 512), seconds, seconds, seconds),
        *(rest_ns, rest_ns, rest_ns, kind | node.mode, links, *node.owner, 0, PAGE_BYTES, 0),
    )


def _attributes_out(node: Node) -> bytes:
    return struct.pack("<QII", _REMEMBERED_S, 0, 0) + _attributes(node)


def _entry_out(node: Node) -> bytes:
    node.lookups += 1
    entry = _ENTRY.pack(node.number, 0, _REMEMBERED_S, _REMEMBERED_S, 0, 0)
    return entry + _attributes(node)
