# SPDX-License-Identifier: Apache-2.0
"""What the package says of itself is true, and nothing at import is missing on other systems."""

import importlib.util
import json
import re
import subprocess
import tomllib
from pathlib import Path
from types import ModuleType

import pytest
import yaml

import legcf
import legcf_studies
from tests import forked

ROOT = Path(__file__).parents[1]
PROJECT, STUDIES = (
    tomllib.loads((folder / "pyproject.toml").read_text())["project"] for folder in (ROOT, ROOT / "studies")
)
WANTED = [
    wanted
    for project in (PROJECT, STUDIES)
    for names in (project["dependencies"], *project["optional-dependencies"].values())
    for wanted in names
]
SOURCES = [str(ROOT / "src"), str(ROOT / "studies" / "src")]
ELSEWHERE = ("fcntl", "grp", "pwd", "resource", "termios", "uvloop")  # what Windows lacks
FORGET = """
import sys
for name in [name for name in sys.modules if name.partition(".")[0] in ("legcf", "legcf_studies")]:
    del sys.modules[name]
"""
LACKING = {  # names of modules that Windows has
    "os": """WNOHANG fork getegid geteuid getgid getpgid getuid killpg mkfifo posix_fadvise posix_fallocate pread preadv
        pwrite register_at_fork sched_getaffinity sched_setaffinity sendfile setsid statvfs sysconf uname wait""",
    "signal": "SIGALRM SIGCHLD SIGHUP SIGKILL SIGPIPE SIGUSR1 SIGUSR2 alarm pthread_sigmask setitimer",
    "socket": "AF_UNIX SO_REUSEPORT",
    "time": "clock_gettime tzset",
}


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
    assert legcf_studies.__version__ == legcf.__version__
    assert yaml.safe_load((ROOT / "CITATION.cff").read_text())["version"] == legcf.__version__
    newest = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert newest is not None
    assert newest[1] in ("Unreleased", legcf.__version__)


def test_everything_that_extras_name_is_pinned() -> None:
    pinned = {line.partition("==")[0].lower() for line in (ROOT / "constraints.txt").read_text().split()}
    names = {re.split(r"[\[<>=;\s]", one)[0].lower().replace("-", "_") for one in WANTED} - {"legcf"}
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


def imported_by(code: str, log: Path) -> None:
    """Run code in a process that has the packages of others already, and nothing of ours."""
    process = forked.Forked(forked.run_source, f"{FORGET}{code}", log=log)
    assert process.wait(120) == 0, log.read_text()


def test_nothing_at_import_is_missing_on_other_systems(tmp_path: Path) -> None:
    """Every module is imported where ours find none of these; packages that we use have ways of their own."""
    code = f"""
import builtins, importlib, pathlib
ours = builtins.__import__
def elsewhere(name, globals=None, *rest, **more):
    if name in {ELSEWHERE} and str((globals or {{}}).get("__name__")).startswith("legcf"):
        raise ModuleNotFoundError(name)
    return ours(name, globals, *rest, **more)
builtins.__import__ = elsewhere
for root in map(pathlib.Path, {SOURCES}):
    for path in sorted(root.rglob("*.py")):
        name = ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__")
        if not name.endswith("__main__"):
            importlib.import_module(name)
"""
    imported_by(code, tmp_path / "log")


def test_nothing_that_only_posix_has_is_used_at_import(tmp_path: Path) -> None:
    """What others need is imported with all names there; then ours is imported again without those of POSIX."""
    code = f"""
import importlib, pathlib, sys
paths = [path.relative_to(root) for root in {SOURCES} for path in sorted(pathlib.Path(root).rglob("*.py"))]
names = [".".join(path.with_suffix("").parts).removesuffix(".__init__") for path in paths]
names = [name for name in names if not name.endswith("__main__")]
for name in names:
    importlib.import_module(name)
{FORGET}
for module, lacking in {LACKING!r}.items():
    for name in lacking.split():
        delattr(importlib.import_module(module), name)
sys.platform = "win32"
import legcf
legcf.Scorer, legcf.Recommender
for name in names:
    importlib.import_module(name)
"""
    imported_by(code, tmp_path / "log")


def test_every_pin_has_a_wheel_where_it_is_needed() -> None:
    """By the table that `python tools/wheels.py` wrote when it asked for these very pins."""
    table = json.loads((ROOT / "benchmarks" / "results" / "wheels.json").read_text())
    assert table["pins"] == (ROOT / "constraints.txt").read_text().split(), "run `python tools/wheels.py`"
    found = table["without a wheel"]
    assert {where.partition(",")[0] for where in found} == {"Linux", "macOS", "Windows"}
    assert any("3.14" in where for where in found)
    left_out = {re.split(r"[<>=;]", one)[0] for one in WANTED if "sys_platform != 'win32'" in one}
    for where, pins in found.items():
        assert {pin.partition("==")[0] for pin in pins} <= (left_out if "Windows" in where else set()), where


def test_the_workflow_covers_every_system_and_python() -> None:
    jobs = yaml.safe_load((ROOT / ".github" / "workflows" / "test.yml").read_text())["jobs"]
    pythons = ["3.11", "3.12", "3.13", "3.14"]
    assert f">={pythons[0]}" == PROJECT["requires-python"]
    systems = {system for job in jobs.values() for system in job["strategy"]["matrix"]["os"]}
    assert {system.partition("-")[0] for system in systems} == {"ubuntu", "macos", "windows"}
    assert all(job["strategy"]["matrix"]["python"] == pythons for job in jobs.values())
    commands = "\n".join(step["run"] for job in jobs.values() for step in job["steps"] if "run" in step)
    for target in re.findall(r"make (\S+)", commands):
        assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), re.MULTILINE), target
    for folder in re.findall(r"(?<=\s)tests/\S+", commands):
        assert (ROOT / folder).is_dir(), folder
