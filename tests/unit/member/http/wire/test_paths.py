"""Promise: what is escaped in a path or body is read as every URL is, and quickly."""

from __future__ import annotations

import re
import time
from urllib.parse import unquote_to_bytes

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grid_member.http.routes.calls import split_parameters
from grid_member.http.wire.paths import MalformedError, decode

BODY_BYTES = 8 * 1024 * 1024
PIECES = ("%", "%4", "%41", "%c3%A9", "%C3", "%5C", "%2B", "%00", "+", "\\", "\\x41", "\\N{DASH}")
TEXTS = st.lists(
    st.sampled_from(PIECES) | st.text(max_size=3) | st.sampled_from(("\udcc3", "\udca9", "\n", "0"))
).map("".join)


@given(TEXTS)
def test_escapes_are_those_of_urls(text: str) -> None:
    try:
        raw = text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return  # no bytes on the wire become such a text
    if re.search(rb"%(?![0-9A-Fa-f]{2})", raw):
        with pytest.raises(MalformedError, match="escape"):
            decode(text)
        return
    raw = unquote_to_bytes(raw.replace(b"+", b" "))
    try:
        wanted = raw.decode()
    except UnicodeDecodeError:
        with pytest.raises(MalformedError, match="not valid UTF-8"):
            decode(text)
        return
    assert decode(text) == wanted


def test_a_body_of_escapes_holds_nobody_up_for_long() -> None:
    body = b"a&b&" + b"%61" * (BODY_BYTES // 3)
    began_s = time.thread_time()
    found = split_parameters(body, 3)
    assert time.thread_time() - began_s < 0.7  # a tenth of that as a rule, seconds by the escape
    assert found == ("a", "b", "a" * (BODY_BYTES // 3))
