# SPDX-License-Identifier: Apache-2.0
"""The bill of materials, and advisories as a service that speaks like OSV gives them."""

import http.server
import importlib.util
import json
import threading
from pathlib import Path
from typing import Any

import pytest

PATH = Path(__file__).parents[1] / "tools" / "audit.py"


@pytest.fixture
def audit() -> Any:
    specification = importlib.util.spec_from_file_location("audit", PATH)
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


class _Osv(http.server.BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["queries"]
        answer = [{"vulns": [{"id": "X-1"}]} if "numpy" in one["package"]["purl"] else {} for one in asked]
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps({"results": answer}).encode())

    def log_message(self, *_: object) -> None:
        """Be quiet."""


def test_every_package_has_a_name_and_a_version(audit: Any) -> None:
    bill = audit.bill()
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.5")
    names = {entry["name"].lower() for entry in bill["components"]}
    assert {"numpy", "polars", "pytest"} <= names
    assert all(entry["version"] and entry["purl"].startswith("pkg:pypi/") for entry in bill["components"])
    assert bill == audit.bill()


def test_advisories_are_named(audit: Any) -> None:
    with http.server.HTTPServer(("127.0.0.1", 0), _Osv) as server:
        threading.Thread(target=server.handle_request, daemon=True).start()
        found = audit.advisories(audit.bill()["components"], f"http://127.0.0.1:{server.server_port}")
    assert [(package.partition("@")[0], ids) for package, ids in found.items()] == [("pkg:pypi/numpy", ["X-1"])]


def test_without_network_it_says_so(audit: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr(audit, "_ADVISORIES", "http://127.0.0.1:9/")
    monkeypatch.setattr(audit.advisories, "__defaults__", ("http://127.0.0.1:9/",))
    monkeypatch.setattr("sys.argv", ["audit", str(tmp_path / "sbom.json")])
    assert audit.main() == 0
    assert "were not checked" in capsys.readouterr().out
    assert json.loads((tmp_path / "sbom.json").read_text())["components"]
