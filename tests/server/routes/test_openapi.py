# SPDX-License-Identifier: Apache-2.0
"""Whatever schemathesis derives from the OpenAPI document, the server never fails and keeps to the document."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings

schemathesis = pytest.importorskip("schemathesis")


@pytest.mark.slow
def test_nothing_that_fits_or_breaks_the_document_is_a_failure(model_file: Path, tmp_path: Path) -> None:
    from legcf.server.app import Settings, create_app
    from legcf.server.state.event_log import EventLog

    EventLog(tmp_path, create=True).close()
    app = create_app(Settings(str(model_file), "secret", access_log=False, events=str(tmp_path)))
    schema = schemathesis.openapi.from_asgi("/openapi.json", app)
    for result in schema.get_all_operations():
        operation = result.ok()

        @settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
        def check(case) -> None:  # type: ignore[no-untyped-def]
            response = case.call(headers={"X-API-Key": "secret"})
            assert response.status_code < 500
            case.validate_response(response)

        given(operation.as_strategy())(check)()


def test_the_document_declares_the_key_and_shows_examples(model_file: Path) -> None:
    from starlette.testclient import TestClient

    from legcf.server.app import Settings, create_app

    plain = TestClient(create_app(Settings(str(model_file), access_log=False))).get("/openapi.json").json()
    assert "securitySchemes" not in plain["components"]
    assert all("security" not in operation for path in plain["paths"].values() for operation in path.values())
    app = create_app(Settings(str(model_file), "secret", access_log=False))
    document = TestClient(app).get("/openapi.json").json()
    schemes = document["components"]["securitySchemes"].values()
    assert {"type": "apiKey", "in": "header", "name": "X-API-Key"} in schemes
    assert {"type": "http", "scheme": "bearer"} in schemes
    for path, operations in document["paths"].items():
        for operation in operations.values():
            closed = path not in ("/live", "/ready", "/health")
            assert ("security" in operation) is closed
            assert ("401" in operation["responses"]) is closed
            assert ("414" in operation["responses"]) is ("parameters" in operation)
    body = document["components"]["schemas"]["AskMany"]["examples"][0]
    assert body["requests"][0]["user"]
    for parameter in document["paths"]["/recommend/{user}"]["get"]["parameters"]:
        assert parameter["description"]
    assert document["paths"]["/similar/{item}"]["get"]["parameters"][0]["example"]
