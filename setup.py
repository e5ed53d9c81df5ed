# SPDX-License-Identifier: Apache-2.0
"""The README as a package index shows it: links that only work inside the tree become absolute, or plain text.

They are absolute where `[project.urls]` in pyproject.toml names a `Repository`. Everything else about the package is in
pyproject.toml.
"""

import re
import tomllib
from pathlib import Path

from setuptools import setup

ROOT = Path(__file__).parent
_LINK = re.compile(r"(!?)\[([^]]*)\]\((?!https?://|#)([^)]+)\)")


def long_description(readme: str, repository: str | None) -> str:
    """`readme` without links and pictures that lead nowhere once it has left the tree."""
    if repository is None:
        shown = _LINK.sub(lambda found: "" if found[1] else found[2], readme)
    else:
        shown = _LINK.sub(lambda found: f"{found[1]}[{found[2]}]({repository.rstrip('/')}/{found[3]})", readme)
    return re.sub(r"<!--.*?-->\n?|<img [^>]*>\n?", "", shown, flags=re.DOTALL)


if __name__ == "__main__":
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    setup(
        long_description=long_description(
            (ROOT / "README.md").read_text("utf-8"), project.get("urls", {}).get("Repository")
        ),
        long_description_content_type="text/markdown",
    )
