# SPDX-License-Identifier: Apache-2.0
"""What `legcf[fit]` promises: baselines, `fast` and `default` from data to file where torch is missing."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.typed import legcf
from tests.helpers import planted, write_folder

BLOCKED = """
import sys


class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("torch", "pymetis"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


sys.meta_path.insert(0, Missing())

from legcf.cli.app import main

for command in map(str.split, sys.stdin.read().splitlines()):
    sys.argv = ["legcf", *command]
    try:
        main()
    except SystemExit as ended:
        print("exit", ended.code, file=sys.stderr)
"""
SOLVED = {
    "popularity": "--method popularity",
    "item-knn": "--method item-knn",
    "ease": "--method ease",
    "als": "--method als --dim 8",
    "fast": "--preset fast --bytes 20kB",
    "default": "--bytes 20kB",
    "items-only": "--preset items-only --dim 8 --epochs 2 --set method.c=8",  # codes that are trained
}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_folder(planted(60, 40), tmp_path_factory.mktemp("without_torch") / "planted")


def without_torch(*commands: str) -> tuple[str, str]:
    """What commands print, one after the other in a process that cannot import torch or pymetis."""
    tree = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    done = subprocess.run(
        [sys.executable, "-c", BLOCKED],
        input="\n".join(commands),
        capture_output=True,
        text=True,
        env=tree,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr


def test_solved_methods_need_no_torch_from_data_to_file(data: Path, tmp_path: Path) -> None:
    commands, pairs = [], tmp_path / "pairs.csv"
    pairs.write_text("user,item\n" + "".join(f"{user},{item}\n" for user in range(60) for item in range(40)))
    for name, options in SOLVED.items():
        run, file = tmp_path / name, tmp_path / f"{name}.legcf"
        commands += [
            f"train {data} {options} --out {run} --quiet",
            f"evaluate {run}",
            f"recommend {run} --user 0 -k 3",
            f"export {run} {file} --users history --quiet",
            f"recommend {file} --user 0 -k 3",
            f"info {run}",
            f"info {file}",
            f"evaluate {file} --data {pairs}",
        ]
    events = tmp_path / "events.csv"
    events.write_text("user,item\n0,1\n1,new\n")
    commands += [f"update {tmp_path / 'fast'} {events} --out {tmp_path / 'updated'}", "methods", "methods legcf"]
    printed, said = without_torch(*commands)
    assert said.count("exit 0") == len(commands), said
    assert printed.count("For user 0") == 2 * len(SOLVED)
    assert (tmp_path / "updated" / "model.json").exists()
    for name, options in SOLVED.items():  # products of other libraries differ in last bits alone
        legcf("train", str(data), *options.split(), "--out", str(tmp_path / "here" / name), "--quiet")
        ours, theirs = (
            json.loads((path / name / "metrics.json").read_text()) for path in (tmp_path / "here", tmp_path)
        )
        assert ours["test"] == pytest.approx(theirs["test"], abs=5e-5)
        assert ours["storage_bytes"] == theirs["storage_bytes"]
    assert "The method `dhe` needs optional packages" in " ".join(printed.split())


def test_what_trains_by_gradient_names_the_extra(data: Path, tmp_path: Path) -> None:
    refused = {
        "--preset graph": "Preset graph of method legcf",
        "--method dhe": "The method `dhe`",
        "--preset graph --backbone ngcf": "The backbone `ngcf`",
    }
    _, said = without_torch(*(f"train {data} {options} --out {tmp_path / 'run'}" for options in refused))
    how = "needs optional packages: run `pip install 'legcf[train]'` and try again."
    assert said == "".join(f"legcf: {what} {how}\nexit 2\n" for what in refused.values())
    assert not (tmp_path / "run").exists()


SELECTS = """
import sys, time
from pathlib import Path
from legcf.cli.app import main

started = time.perf_counter()
sys.argv = ["legcf", *sys.stdin.read().split()]
try:
    main()
finally:
    status = Path("/proc/self/status")  # getrusage would count the process that this one was forked from
    lines = status.read_text().splitlines() if status.exists() else ["VmHWM: 0 kB"]
    peak = next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))
    print("torch" in sys.modules, peak // 1024, time.perf_counter() - started, file=sys.stderr)
"""


def test_a_selection_needs_no_torch_and_little_memory_and_time(data: Path, tmp_path: Path) -> None:
    """With torch, which was imported before anything was read, the peak was 190 MB higher. The limits are generous."""
    command = f"train {data} --bytes 20kB --epochs 0 --out {tmp_path / 'run'} --quiet"
    tree = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    done = subprocess.run([sys.executable, "-c", SELECTS], input=command, capture_output=True, text=True, env=tree)
    assert done.returncode == 0, done.stderr
    imported, peak, seconds = done.stderr.splitlines()[-1].split()
    assert json.loads((tmp_path / "run" / "metrics.json").read_text())["test"]["recall@20"] > 0
    assert imported == "False"
    assert int(peak) < 450
    assert float(seconds) < 120
