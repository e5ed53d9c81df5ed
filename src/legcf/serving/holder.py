"""The model in use: replaced as a whole with its file, while requests under way keep the one they began with."""

import asyncio
import time
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from legcf.errors import UserError
from legcf.ranking.popularity import at_least_one
from legcf.ranking.rows import CodedRows
from legcf.serving import atlas
from legcf.serving.scorer import Scorer
from legcf.serving.telemetry import Telemetry, log

_LEAST_GROUP = 3
_MAP_POINTS = 4000  # the best-known items; more would neither be seen nor travel well


@dataclass(frozen=True, eq=False)
class Loaded:
    """A scorer with what only the page needs, computed when first asked for."""

    scorer: Scorer
    bytes: int
    mark: tuple[int, int, int]
    at: float = field(default_factory=time.time)

    @cached_property
    def folded_names(self) -> list[str]:
        model = self.scorer.model
        names = model.titles if model.titles is not None else [str(value) for value in model.items.values.tolist()]
        return [name.casefold() for name in names]

    @cached_property
    def user_names(self) -> list[str]:
        users = self.scorer.model.users
        return [] if users is None else [str(value) for value in users.values.tolist()]

    @cached_property
    def by_popularity(self) -> list[int]:
        order: list[int] = np.argsort(-self.scorer.model.popularity, kind="stable").tolist()
        return order

    @cached_property
    def hues(self) -> list[int]:
        """A colour for each anchor: by its direction on the map, so that regions show, a little off its neighbours'."""
        spots = self.scorer.model.atlas
        if spots is None:
            return [220]
        around = np.degrees(np.arctan2(spots[:, 1], spots[:, 0])) + 25 * np.sin(2.4 * np.arange(len(spots)))
        hues: list[int] = (around % 360).astype(int).tolist()
        return hues

    @cached_property
    def map(self) -> dict[str, Any]:
        """Places, colours and names for the canvas."""
        model = self.scorer.model
        shown = np.array(self.by_popularity[:_MAP_POINTS], dtype=np.int64)
        places = atlas.place(model.item_rows, model.atlas)[shown]
        colours = atlas.anchors(model.item_rows)[shown]
        counts = at_least_one(model.popularity)[shown]
        groups = []
        for meta in np.unique(colours).tolist():
            members = np.flatnonzero(colours == meta)
            if len(members) >= _LEAST_GROUP and isinstance(model.item_rows, CodedRows):
                names = [model.item_name(item) for item in shown[members[:2]].tolist()]
                known = float(counts[members].sum())
                groups.append({"meta": meta, "count": len(members), "examples": names, "known": known})
        groups.sort(key=_best_known)
        return {
            "ids": model.items.external(shown),
            "titles": [model.item_name(item) for item in shown.tolist()],
            "x": np.round(places[:, 0], 4).astype(float).tolist(),
            "y": np.round(places[:, 1], 4).astype(float).tolist(),
            "meta": colours.tolist(),
            "size": np.round(np.log2(1 + counts), 2).astype(float).tolist(),
            "groups": groups[:40],
            "of": len(model.items),
        }


def _best_known(group: dict[str, Any]) -> float:
    return -float(group["known"])


class Holder:
    def __init__(self, path: Path, telemetry: Telemetry) -> None:
        self.path, self._telemetry = path, telemetry
        self.current = self._load()

    def _load(self) -> Loaded:
        mark = self._mark()
        scorer = Scorer.load(self.path).prepare()
        return Loaded(scorer, mark[1] if mark else 0, mark or (0, 0, 0))

    def _mark(self) -> tuple[int, int, int] | None:
        try:
            state = self.path.stat()
        except OSError:
            return None
        return state.st_mtime_ns, state.st_size, state.st_ino

    async def watch(self, every_seconds: float) -> None:
        """Load a replaced file beside the running model, then switch. A bad file changes nothing and is told once."""
        refused: tuple[int, int, int] | None = None
        while True:
            await asyncio.sleep(every_seconds)
            mark = self._mark()
            if mark is None or mark == self.current.mark or mark == refused:
                continue
            try:
                self.current = await asyncio.to_thread(self._load)
            except UserError as error:
                refused = mark
                self._telemetry.event("model_reload_failures")
                log("model_refused", "error", path=str(self.path), reason=str(error))
            else:
                self._telemetry.event("model_reloads")
                log("model_reloaded", path=str(self.path), bytes=self.current.bytes)
