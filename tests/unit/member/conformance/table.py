"""The conformance table, all chapters together."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.unit.member.conformance import (
    paths,
    rows_documents,
    rows_maps,
    rows_names,
    rows_queues,
    rows_transport,
)

if TYPE_CHECKING:
    from tests.unit.member.conformance.language import Row

TABLE: tuple[Row, ...] = (
    *rows_transport.ROWS,
    *rows_maps.ROWS,
    *rows_names.ROWS,
    *rows_queues.ROWS,
    *rows_documents.ROWS,
    *paths.ROWS,
)
