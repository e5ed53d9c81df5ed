# SPDX-License-Identifier: Apache-2.0
"""Where compiled code is kept, and what whoever waits for the compiler is told."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np

from legcf.core.jit import is_writable, njit, prange, settle_cache

SOURCE = Path(__file__).parents[2] / "src" / "legcf"


def test_a_named_folder_counts_before_all_others(tmp_path: Path, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "named"))
    assert settle_cache()
    assert (tmp_path / "named").is_dir()
    (tmp_path / "file").touch()
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "file"))
    assert not settle_cache()


def test_what_can_be_written(tmp_path: Path) -> None:
    assert is_writable(tmp_path / "new" / "folder")
    (tmp_path / "file").touch()
    assert not is_writable(tmp_path / "file")


def test_without_any_folder_functions_are_compiled_and_not_kept(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    code = "from legcf.ranking.topk_numba import top_k; print(type(top_k).__name__)"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "file")},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0
    assert "Traceback" not in done.stderr


def test_it_is_numba() -> None:
    @njit(parallel=True)
    def total(values):  # type: ignore[no-untyped-def]
        found = 0.0
        for position in prange(len(values)):
            found += values[position]
        return found

    assert total(np.arange(4.0)) == 6.0


def test_everything_is_compiled_by_this_module() -> None:
    direct = [path.name for path in SOURCE.rglob("*.py") if "from numba import" in path.read_text()]
    assert direct == ["jit.py"]


def test_told_once_and_only_while_nothing_is_compiled(tmp_path: Path) -> None:
    (tmp_path / "kernels.py").write_text(
        "from legcf.core.jit import njit\n\n\n"
        "@njit(cache=True)\ndef one(x):\n    return x + 1\n\n\n"
        "@njit(cache=True)\ndef two(x):\n    return x + 2\n"
    )
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "cache"), "PYTHONPATH": _path(tmp_path)}
    for said in (1, 0):
        done = subprocess.run(
            [sys.executable, "-c", "import kernels; print(kernels.one(1) + kernels.two(1.5))"],
            capture_output=True,
            text=True,
            check=True,
            env=environment,
        )
        assert done.stdout.strip() == "5.5"
        assert done.stderr.count("Compiling for this machine") == said


def _path(first: Path) -> str:
    return os.pathsep.join([str(first), *(entry for entry in sys.path if entry)])


FACTORISED = """
import hashlib, numpy as np, scipy.sparse as sp
from legcf.data.interactions import Interactions
from legcf.factorisation.als import AlsSettings, factorise
pairs = sp.random(300, 200, 0.05, "csr", random_state=np.random.default_rng(0))
train = Interactions(pairs.indptr.astype(np.int64), pairs.indices.astype(np.int32), 200)
users, items = factorise(train, 16, np.random.default_rng(0), AlsSettings(alpha=10.0))
print(hashlib.sha256(users.tobytes() + items.tobytes()).hexdigest())
"""


def test_the_run_that_compiles_is_repeated_to_the_bit(tmp_path: Path) -> None:
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path), "PYTHONPATH": _path(SOURCE.parent)}
    done = [
        subprocess.run([sys.executable, "-c", FACTORISED], capture_output=True, text=True, check=True, env=environment)
        for _ in range(2)
    ]
    assert ["Compiling for this machine" in one.stderr for one in done] == [True, False]
    assert done[0].stdout == done[1].stdout


COUNTING = """
import sys
from legcf.core import jit
from numba.core import event
class Count(event.Listener):
    def on_start(self, event): print("compiled", flush=True)
    def on_end(self, event): pass
event.register("numba:compile", Count())
from triple import triple
print(triple(14), triple(0.5))
"""


def test_damaged_code_is_compiled_anew_and_never_run(tmp_path: Path) -> None:
    """One bit of the machine code makes another number, or the end of the process."""
    source = "from legcf.core.jit import njit\n\n@njit(cache=True)\ndef triple(value):\n    return 3 * value\n"
    (tmp_path / "triple.py").write_text(source)
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "kept"), "PYTHONPATH": os.pathsep.join(sys.path)}

    def said() -> list[str]:
        command = [sys.executable, "-c", COUNTING]
        done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=True)
        return done.stdout.split()

    both = ["compiled", "compiled", "42", "1.5"]
    assert said() == both
    for pattern, spoil in (
        ("*.nbc", lambda content: content.replace(content[len(content) // 2 :][:9], b"\x90" * 9)),
        ("*.nbi", lambda content: content[:-3] + b"???"),
    ):
        for path in (tmp_path / "kept").rglob(pattern):
            path.write_bytes(spoil(path.read_bytes()))
        assert said() == both
    assert said() == ["42", "1.5"]
    one, other = (tmp_path / "kept").rglob("*.nbc")
    whole, floats = one.read_bytes(), other.read_bytes()
    one.write_bytes(floats)
    other.write_bytes(whole)
    assert said() == both
    assert said() == ["42", "1.5"]
