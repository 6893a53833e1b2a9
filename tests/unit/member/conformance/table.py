"""The conformance table, all chapters together."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.unit.member.conformance import paths
from tests.unit.member.conformance.rows import (
    rows_bad_input,
    rows_cluster,
    rows_configured,
    rows_cp,
    rows_documents,
    rows_maps,
    rows_names,
    rows_openapi,
    rows_persistence,
    rows_queues,
    rows_security,
    rows_transport,
    rows_wan,
)

if TYPE_CHECKING:
    from tests.unit.member.conformance.language import Row

TABLE: tuple[Row, ...] = (
    *rows_transport.ROWS,
    *rows_maps.ROWS,
    *rows_names.ROWS,
    *rows_queues.ROWS,
    *rows_documents.ROWS,
    *rows_cluster.ROWS,
    *rows_configured.ROWS,
    *rows_cp.ROWS,
    *rows_persistence.ROWS,
    *rows_security.ROWS,
    *rows_openapi.ROWS,
    *rows_wan.ROWS,
    *rows_bad_input.ROWS,
    *paths.ROWS,
)
