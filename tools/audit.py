# SPDX-License-Identifier: Apache-2.0
"""Write a software bill of materials of what is installed, and check it against known advisories (`make audit`).

The bill is CycloneDX 1.5 (JSON), made of the metadata of installed distributions alone. Advisories come from OSV
(https://osv.dev), which is asked by names and versions; without network that is said, and nothing is checked.
"""

import json
import sys
import urllib.error
import urllib.request
from importlib.metadata import Distribution, distributions
from pathlib import Path
from typing import Any

_ADVISORIES = "https://api.osv.dev/v1/querybatch"
_SECONDS = 20


def component(distribution: Distribution) -> dict[str, Any]:
    """Return one entry of the bill."""
    name, version, metadata = distribution.name, distribution.version, distribution.metadata
    entry: dict[str, Any] = {
        "type": "library",
        "name": name,
        "version": version,
        "purl": f"pkg:pypi/{name.lower()}@{version}",
    }
    text = metadata.get("License-Expression") or metadata.get("License")
    if text and "\n" not in text and len(text) < 100:
        entry["licenses"] = [{"license": {"name": text}}]
    return {"bom-ref": entry["purl"], **entry}


def bill() -> dict[str, Any]:
    """Return the bill of materials of this environment, the same for the same packages."""
    components = {entry["purl"]: entry for entry in map(component, distributions())}
    ours = [entry for entry in components.values() if entry["name"] == "legcf"]
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": {**ours[0], "type": "application"}} if ours else {},
        "components": [entry for _, entry in sorted(components.items()) if entry not in ours],
    }


def advisories(components: list[dict[str, Any]], address: str = _ADVISORIES) -> dict[str, list[str]]:
    """Return the identifiers of known advisories by package and version; an OSError without network."""
    queries = [{"package": {"purl": entry["purl"]}} for entry in components]
    request = urllib.request.Request(
        address, json.dumps({"queries": queries}).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=_SECONDS) as answer:
        results = json.load(answer)["results"]
    found = zip(components, results, strict=True)
    return {entry["purl"]: [one["id"] for one in result["vulns"]] for entry, result in found if result.get("vulns")}


def main() -> int:
    path = Path(sys.argv[1] if len(sys.argv) > 1 else "sbom.json")
    content = bill()
    path.write_text(json.dumps(content, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    print(f"{path}: {len(content['components'])} packages (CycloneDX 1.5).")
    try:
        known = advisories(content["components"])
    except (OSError, ValueError, KeyError) as error:
        print(f"Advisories were not checked, for {_ADVISORIES} does not answer ({error}).")
        return 0
    for package, identifiers in sorted(known.items()):
        print(f"{package}: {', '.join(identifiers)}")
    print(f"{len(known)} of {len(content['components'])} packages have known advisories.")
    return 1 if known else 0


if __name__ == "__main__":
    sys.exit(main())
