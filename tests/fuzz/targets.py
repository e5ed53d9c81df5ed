# SPDX-License-Identifier: Apache-2.0
"""What is fed, and what must hold: an answer or a UserError, never anything else; scores are always finite.

A case follows from a generator alone, so that a case that fails can be run again by its number.
"""

import json
import shutil
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from legcf.core.errors import UserError
from legcf.modelfile.container import read_container, write_container
from tests.fuzz.mutations import changed_bytes, changed_json, odd

HERE = Path(__file__).parents[1]
GOLDEN = HERE / "modelfile" / "golden"


class Target(ABC):
    """One reader; `attempt` raises what must not be raised. `cases` is how many the last attempt had."""

    cases = 1

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    @abstractmethod
    def attempt(self, rng: np.random.Generator) -> int:
        """Try one case or some; return how many were accepted."""

    def close(self) -> None:  # noqa: B027 - most have started nothing
        """End what `__init__` has started."""


def accepted(action: Callable[[], object]) -> bool:
    try:
        action()
    except UserError as error:
        sentence = str(error)
    else:
        return True
    assert sentence, "a refusal without a word"
    assert "\n" not in sentence, f"more than a sentence: {sentence}"
    return False


def replaced(path: Path, content: bytes) -> Path:
    path.unlink(missing_ok=True)
    path.write_bytes(content)
    return path


KINDS = ("attributes", "dislikes", "features", "lists-fine", "repeats", "user-features", "weights", "with-order")


class ModelFile(Target):
    """Bytes of model files changed; or settings, card and arrays, under a right checksum."""

    def __init__(self, folder: Path) -> None:
        from tests.device.golden import make_kinds

        super().__init__(folder)
        self._files = sorted(GOLDEN.glob("*.legcf"))
        kinds = make_kinds()
        for kind in KINDS:
            self._files.append(folder / f"{kind}.whole")
            kinds[kind].save(self._files[-1])

    def attempt(self, rng: np.random.Generator) -> bool:
        source = self._files[rng.integers(len(self._files))]
        path = self.folder / "model.legcf"
        if rng.random() < 0.3:
            replaced(path, changed_bytes(source.read_bytes(), rng))
            return accepted(lambda: self._use(path))
        arrays, metadata = read_container(source)
        for _ in range(rng.integers(1, 3)):
            kind = rng.integers(4)
            if kind < 2:
                part = ("config", "card")[kind if rng.random() < 0.3 else 0]
                metadata[part] = json.dumps(changed_json(json.loads(metadata[part]), rng))
            elif arrays:
                name = sorted(arrays)[rng.integers(len(arrays))]
                arrays[name] = _changed_array(arrays[name], rng)
        path.unlink(missing_ok=True)
        try:
            write_container(path, arrays, metadata)
        except (UserError, UnicodeEncodeError):
            return False
        return accepted(lambda: self._use(path))

    def _use(self, path: Path) -> None:
        from legcf.scoring.scorer import Request, Scorer

        scorer = Scorer.load(path)
        assert repr(scorer)
        items = scorer.model.items.external([0])
        scored = scorer.recommend(Request(items=items, k=5))
        assert all(np.isfinite(one.score) for one in scored), scored
        if scorer.model.user_encoder is not None and scorer.model.user_encoder.coder.columns:
            known = {scorer.model.user_encoder.coder.columns[0].name: "a"}
            scored = scorer.recommend(Request(features=known, k=5))
            assert all(np.isfinite(one.score) for one in scored), scored
        if scorer.model.users is not None and len(scorer.model.users):
            scored = scorer.recommend(Request(user=scorer.model.users.external([0])[0], k=5))
            assert all(np.isfinite(one.score) for one in scored), scored


def _changed_array(array: Any, rng: np.random.Generator) -> Any:
    kind = rng.integers(5)
    if kind == 0:
        return array[: rng.integers(0, len(array) + 1)]
    if kind == 1:
        return np.frombuffer(changed_bytes(array.tobytes(), rng), dtype=np.uint8)
    if kind == 2:
        return np.zeros_like(array)
    if kind == 3:
        return np.frombuffer(rng.bytes(array.nbytes), dtype=array.dtype).reshape(array.shape)
    return array.reshape(-1) if array.ndim > 1 else array[:, None]


class RunFolder(Target):
    """Files of run folders changed; the checksum of the arrays is put right in half of the cases."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._runs = [GOLDEN / "run-fast", GOLDEN / "run-graph", HERE / "runs_kept" / "format-1"]

    def attempt(self, rng: np.random.Generator) -> bool:
        from legcf.training.run_folder import load_model

        source = self._runs[rng.integers(len(self._runs))]
        run = self.folder / "run"
        shutil.rmtree(run, ignore_errors=True)
        shutil.copytree(source, run)
        names = [path for path in run.rglob("*") if path.is_file() and path.name != "model.safetensors"]
        names += [path for path in run.rglob("model.safetensors") if rng.random() < 0.5]
        path = names[rng.integers(len(names))]
        if path.suffix == ".json" and rng.random() < 0.8:
            content = changed_json(json.loads(path.read_text()), rng)
            replaced(path, json.dumps(content).encode())
        else:
            replaced(path, changed_bytes(path.read_bytes(), rng))
            if path.name == "model.safetensors" and rng.random() < 0.5:
                _vouch(path)
        return accepted(lambda: _checked_ranking(load_model(run)))


def _vouch(path: Path) -> None:
    import hashlib

    described = path.parent / "model.json"
    content = json.loads(described.read_text())
    content["sha256"] = hashlib.sha256(path.read_bytes()).hexdigest()
    described.write_text(json.dumps(content))


def _checked_ranking(trained: Any) -> None:
    from legcf.scoring.run_files import summary

    assert trained.card
    assert summary(trained.metrics)
    assert trained.ranking.histories.num_items == len(trained.items)


class Tables(Target):
    """Tables of every format and archives, right but for a few damaged places; every hundredth is Parquet."""

    def attempt(self, rng: np.random.Generator) -> bool:
        import gzip

        from legcf.data.source import load_data
        from tests.data.reading.test_fuzz import CHOICES, NAMES, contents

        name = "a.parquet" if rng.random() < 0.01 else NAMES[rng.integers(len(NAMES))]
        content = contents(name, rng)
        if name.endswith(".gz") and rng.random() < 0.8:
            content = gzip.compress(content)
        if rng.random() < 0.2:
            content = changed_bytes(content, rng)
        path = replaced(self.folder / name, content)
        options = CHOICES[rng.integers(len(CHOICES))]
        return accepted(lambda: load_data(self.folder if name == "train.txt" else path, options))


class Prepared(Target):
    """Files of a prepared folder changed: it opens with the right pairs or is refused."""

    def __init__(self, folder: Path) -> None:
        from legcf.data.source import load_data, prepare_source

        super().__init__(folder)
        table = folder / "a.csv"
        rows = "".join(f"u{row % 13},{row * 7 % 31},{row % 5}\n" for row in range(300))
        table.write_text(f"user,item,rating\n{rows}")
        prepare_source(table, folder / "whole", quiet=True)
        self._expected = load_data(folder / "whole")

    def attempt(self, rng: np.random.Generator) -> bool:
        from legcf.data.source import load_data

        out = self.folder / "out"
        shutil.rmtree(out, ignore_errors=True)
        shutil.copytree(self.folder / "whole", out)
        paths = sorted(out.iterdir())
        path = paths[rng.integers(len(paths))]
        if path.suffix == ".json" and rng.random() < 0.8:
            path.write_text(json.dumps(changed_json(json.loads(path.read_text()), rng)))
        else:
            path.write_bytes(changed_bytes(path.read_bytes(), rng))

        def use() -> None:
            opened = load_data(out)
            assert np.array_equal(opened.train.items, self._expected.train.items)
            assert opened.users.values.tolist() == self._expected.users.values.tolist()

        return accepted(use)


class Events(Target):
    """An event log, written with odd entries, damaged and read again as an update reads it."""

    def attempt(self, rng: np.random.Generator) -> bool:
        from legcf.server.state.event_log import EventLog
        from legcf.server.state.log_entries import Change, Described, new_event

        folder = self.folder / "events"
        shutil.rmtree(folder, ignore_errors=True)
        log = EventLog(folder, create=True)
        texts = [value for value in (odd(rng) for _ in range(12)) if isinstance(value, str) and value != "\ud800"]
        entries: list[Any] = [new_event(text, "i", at=float(rng.integers(-(10**9), 10**9))) for text in texts]
        entries += [Change("i", True, 0.0), Described("i", {"a": texts}, None, 1.0)]
        log.write([entries])
        seen = [event.user for event in log.since()[1]]
        assert seen == texts, "order or content changed"
        log.close()
        for path in folder.iterdir():
            if rng.random() < 0.7:
                path.write_bytes(changed_bytes(path.read_bytes(), rng))
        return accepted(lambda: self._read(folder))

    def _read(self, folder: Path) -> None:
        from legcf.data.ids import IdMap
        from legcf.updating.events import new_events

        ids = IdMap.of(["a"])
        trained: Any = SimpleNamespace(metrics={}, features=None, users=ids, items=ids)
        new_events(folder, trained)
