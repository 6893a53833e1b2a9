"""The members that one run of the client talks to."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeVar

from grid_member.client.errors import ConflictError, PassingError, SilentError, UsageError
from grid_member.client.member import MemberClient
from grid_member.client.wire import parse_url

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from grid_member.client.wire import ConnectOptions

T = TypeVar("T")
ORDINAL: Final = "{ordinal}"
"""In a URL: stands for 0, 1, … up to the number of members."""
_VARIABLE: Final = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


@dataclass(frozen=True, slots=True)
class MemberGroup:
    """All members of a StatefulSet, by a URL with their ordinal in the host."""

    url: str
    options: ConnectOptions
    cluster_name: str

    def at(self, ordinal: int) -> MemberClient:
        """Return the way to the member with an ordinal."""
        url = self.url.replace(ORDINAL, str(ordinal))
        return MemberClient(parse_url(url), self.options, self.cluster_name)

    def ordinals(self, hosts: Iterable[str]) -> dict[int, str]:
        """Return which of the hosts are members of the StatefulSet, by their ordinals."""
        host = parse_url(self.url.replace(ORDINAL, "0ordinal0")).host
        before, _, after = host.partition("0ordinal0")
        found = {}
        for name in hosts:
            middle = name.lower().removeprefix(before).removesuffix(after)
            if middle.isdecimal() and name.lower() == f"{before}{int(middle)}{after}":
                found[int(middle)] = name
        return found


def expand(text: str, environment: Mapping[str, str]) -> str:
    """Return a URL with `${VARIABLE}` replaced from the environment, as in configuration files.

    Raises:
        UsageError: A variable is not set.
    """

    def value(match: re.Match[str]) -> str:
        name = match.group(1)
        if name not in environment:
            raise UsageError(f"--url {text}: the environment variable {name} is not set")
        return environment[name]

    return _VARIABLE.sub(value, text)


def each_member(
    urls: Iterable[str], size: int | None, options: ConnectOptions, cluster_name: str
) -> tuple[MemberClient, ...]:
    """Return the members that URLs stand for; one with an ordinal stands for `size` of them.

    Raises:
        UsageError: A URL is none, or has an ordinal and there is no size.
    """
    found = []
    for url in urls:
        if ORDINAL in url and size is None:
            raise UsageError(f"--url {url}: say with --size how many members it stands for")
        ordinals = range(size or 0) if ORDINAL in url else (0,)
        found += [MemberGroup(url, options, cluster_name).at(ordinal) for ordinal in ordinals]
    return tuple(found)


def first_answer(members: Iterable[MemberClient], ask: Callable[[MemberClient], T]) -> T:
    """Return what the first member says that can say it now.

    Raises:
        ConflictError: None can, and one of them because of the state that it is in.
        SilentError: None gives any answer.
        PassingError: None can; the message has what is wrong with each.
        FinalError: One of those that were asked refuses for good.
    """
    found: list[PassingError] = []
    for member in members:
        try:
            return ask(member)
        except PassingError as error:
            found.append(error)
    conflict = next((error for error in found if isinstance(error, ConflictError)), None)
    silent = all(isinstance(error, SilentError) for error in found)
    text = "; ".join(map(str, found))
    raise conflict or (SilentError(text) if silent else PassingError(text))
