"""The description has the form that OpenAPI 3.1 asks for."""

from __future__ import annotations

from openapi_spec_validator import OpenAPIV31SpecValidator

from grid_member.http.openapi.description import description


def errors(document: dict[str, object]) -> list[str]:
    found = OpenAPIV31SpecValidator(document).iter_errors()
    return [error.message.partition("\n")[0] for error in found]


def test_the_description_is_openapi() -> None:
    document = description("1.2.3")
    assert errors(document) == []
    spoilt = {name: part for name, part in document.items() if name != "info"}
    assert errors(spoilt) == ['"info" is a required property']
