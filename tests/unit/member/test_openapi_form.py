"""The description has the form that OpenAPI 3.1 asks for."""

from __future__ import annotations

from openapi_spec_validator import OpenAPIV31SpecValidator, validate

from grid_member.http.openapi import description


def test_the_description_is_openapi() -> None:
    validate(description("1.2.3"), cls=OpenAPIV31SpecValidator)
