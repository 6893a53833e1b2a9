"""Target: the JSON of `addWanConfig`, as tools of other products and people write it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from grid_member.wan.agreement.added_json import AddedJsonError, read_added
from grid_member.wan.agreement.definitions import packed, publisher_document, read_publisher
from tests.fuzz.target import FindingError

if TYPE_CHECKING:
    from collections.abc import Hashable


class WanJsonTarget:
    """The input is the text of the third parameter of the call."""

    name = "wanjson"
    words = (
        *(b'"name":', b'"batchPublishers":[', b'"consumer":{', b'"customPublishers":[]'),
        *(b'"clusterName":', b'"publisherId":', b'"targetEndpoints":', b'"queueCapacity":'),
        *(b'"queueFullBehavior":', b'"initialPublisherState":', b'"properties":{"realm":'),
        *(b'"sync":{"consistencyCheckStrategy":', b'"aws":{"enabled":false}', b'"endpoint":null'),
        *(b"1e999", b"-1", b"2147483647", b"true", b"[]", b"\\ud800", b'"a:5705,[::1]:1"'),
    )
    max_bytes = 4096

    def run(self, data: bytes) -> Hashable:
        """Read; what is accepted must mean the same on the members that hear of it."""
        try:
            text = data.decode("utf-8", "surrogatepass")
        except UnicodeDecodeError:
            return None
        try:
            found = read_added(text)
        except AddedJsonError as error:
            return str(error)
        for publisher in found.publishers:
            document = json.loads(packed(publisher_document(publisher)))
            if read_publisher(document) != publisher:
                raise FindingError("a publisher changes when members tell it to each other")
        return len(found.publishers), found.name.isascii()
