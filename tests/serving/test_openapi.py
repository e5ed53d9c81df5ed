"""Whatever schemathesis derives from the OpenAPI document, the server never fails and keeps to the document."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings

pytest.importorskip("fastapi", reason="the server is an extra")
schemathesis = pytest.importorskip("schemathesis")


@pytest.mark.slow
def test_nothing_that_fits_or_breaks_the_document_is_a_failure(model_file: Path) -> None:
    from legcf.serving.server import Settings, create_app

    app = create_app(Settings(str(model_file), access_log=False))
    schema = schemathesis.openapi.from_asgi("/openapi.json", app)
    for result in schema.get_all_operations():
        operation = result.ok()

        @settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
        def check(case) -> None:  # type: ignore[no-untyped-def]
            response = case.call()
            assert response.status_code < 500
            case.validate_response(response)

        given(operation.as_strategy())(check)()
