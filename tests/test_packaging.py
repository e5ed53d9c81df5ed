# SPDX-License-Identifier: Apache-2.0
"""What the package says of itself is true, and nothing at import is missing on other systems."""

import importlib.util
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from types import ModuleType

import pytest
import yaml

import legcf

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
ELSEWHERE = ("fcntl", "grp", "pwd", "resource", "termios", "uvloop")  # what Windows lacks


@pytest.fixture(scope="module")
def setup_file() -> ModuleType:
    spec = importlib.util.spec_from_file_location("setup_file", ROOT / "setup.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_version_stands_in_one_place_and_others_agree() -> None:
    assert "version" in PROJECT["dynamic"]
    assert yaml.safe_load((ROOT / "CITATION.cff").read_text())["version"] == legcf.__version__
    newest = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert newest is not None
    assert newest[1] in ("Unreleased", legcf.__version__)


def test_everything_that_extras_name_is_pinned() -> None:
    pinned = {line.partition("==")[0].lower() for line in (ROOT / "constraints.txt").read_text().split()}
    wanted = [*PROJECT["dependencies"], *(one for extra in PROJECT["optional-dependencies"].values() for one in extra)]
    names = {re.split(r"[\[<>=;\s]", one)[0].lower().replace("-", "_") for one in wanted} - {"legcf"}
    kept_apart = {"mlflow_skinny"}  # wants older versions of others
    assert names - {name.replace("-", "_") for name in pinned} - kept_apart == set()


def test_links_of_the_readme_lead_somewhere() -> None:
    for target in re.findall(r"""(?:\]\(|src=")(?!https?://)([^)#"]+)""", (ROOT / "README.md").read_text()):
        assert (ROOT / target).exists(), target


def test_the_readme_names_every_page() -> None:
    readme = (ROOT / "README.md").read_text()
    pages = {path.name for path in (ROOT / "docs").glob("*.md")} - {"index.md"}  # the start page of the site
    assert {page for page in pages if f"](docs/{page})" not in readme} == set()


def test_the_readme_has_no_dead_links_on_a_package_index(setup_file: ModuleType) -> None:
    readme = (ROOT / "README.md").read_text()
    shown = setup_file.long_description(readme, None)
    assert re.findall(r"\]\((?!https?://)[^)]*\)", shown) == []
    assert "<img" in readme
    assert "<img" not in shown
    assert "docs/data.md" in shown  # the name stays, the link goes
    absolute = setup_file.long_description(readme, "https://example.org/legcf/")
    assert "](https://example.org/legcf/docs/data.md)" in absolute


def test_what_is_in_the_tree_goes_into_the_source_distribution() -> None:
    lines = (ROOT / "MANIFEST.in").read_text().splitlines()
    named = {name for line in lines if line.startswith(("include", "graft")) for name in line.split()[1:]}
    tracked = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    ).stdout.split()
    if not tracked:
        pytest.skip("this is no checkout")
    tops = {path.partition("/")[0] for path in tracked if not path.startswith(".")}
    assert tops - named == {"src", "pyproject.toml", "setup.py", "MANIFEST.in"}  # which are always there
    assert all((ROOT / name).exists() for name in named)


def test_nothing_at_import_is_missing_on_other_systems() -> None:
    """Every module is imported where ours find none of these; packages that we use have ways of their own."""
    code = f"""
import builtins, importlib, pathlib
ours = builtins.__import__
def elsewhere(name, globals=None, *rest, **more):
    if name in {ELSEWHERE} and str((globals or {{}}).get("__name__")).startswith("legcf"):
        raise ModuleNotFoundError(name)
    return ours(name, globals, *rest, **more)
builtins.__import__ = elsewhere
root = pathlib.Path({str(ROOT / "src")!r})
for path in sorted((root / "legcf").rglob("*.py")):
    name = ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__")
    if not name.endswith("__main__"):
        importlib.import_module(name)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
