# SPDX-License-Identifier: Apache-2.0
"""RecBole 1.2.1: LightGCN, SimpleX, BPR, EASE and ItemKNN, trained by its own trainer with its own early stopping."""

import contextlib
import os
import tempfile
import time
from pathlib import Path
from typing import Any

os.environ["TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD"] = "1"  # its checkpoints hold more than weights

import numpy as np
import scipy.sparse as sp
import torch
from common import ByScores, main

# RecBole 1.2.1 was written for older releases of numpy and scipy: names that they have dropped since.
for name, value in {"float_": np.float64, "bool8": np.bool_, "complex_": np.complex128, "unicode_": np.str_}.items():
    if not hasattr(np, name):
        setattr(np, name, value)
if not hasattr(sp.dok_matrix, "_update"):
    sp.dok_matrix._update = lambda self, values: self._dict.update(values)

from recbole.config import Config  # noqa: E402
from recbole.data import create_dataset, data_preparation  # noqa: E402
from recbole.data.interaction import Interaction  # noqa: E402
from recbole.utils import get_model, get_trainer, init_seed  # noqa: E402


class OutOfTime(Exception):
    pass


def write(split: dict[str, sp.csr_matrix], folder: Path) -> None:
    for ours, theirs in (("train", "train"), ("validation", "valid"), ("test", "test")):
        pairs = split[ours].tocoo()
        lines = [f"{user}\t{item}" for user, item in zip(pairs.row, pairs.col, strict=True)]
        text = "\n".join(["user_id:token\titem_id:token", *lines])
        (folder / f"split.{theirs}.inter").write_text(text + "\n")


class Model(ByScores):
    def __init__(self, name: str, split: dict[str, sp.csr_matrix], settings: dict[str, Any]) -> None:
        settings = dict(settings)
        seconds = settings.pop("seconds", None)
        folder = Path(tempfile.mkdtemp())
        (folder / "split").mkdir()
        write(split, folder / "split")
        config = Config(
            model=name,
            dataset="split",
            config_dict={
                "data_path": str(folder), "checkpoint_dir": str(folder), "use_gpu": False, "worker": 0,
                "load_col": {"inter": ["user_id", "item_id"]}, "benchmark_filename": ["train", "valid", "test"],
                "metrics": ["Recall", "NDCG"], "topk": [20], "valid_metric": "NDCG@20", "seed": 0,
                "eval_args": {"mode": "full", "order": "RO", "group_by": "user"}, "eval_batch_size": 400_000,
                "state": "ERROR", "show_progress": False, **settings,
            },
        )  # fmt: skip
        init_seed(0, True)
        data = create_dataset(config)
        train_data, valid_data, test_data = data_preparation(config, data)
        self.model = get_model(name)(config, train_data.dataset)
        trainer = get_trainer(config["MODEL_TYPE"], name)(config, self.model)
        started = time.monotonic()

        def watch(epoch: int, score: float) -> None:
            if seconds is not None and time.monotonic() - started > seconds:
                raise OutOfTime

        with contextlib.suppress(OutOfTime):
            trainer.fit(train_data, valid_data, saved=True, show_progress=False, callback_fn=watch)
        if Path(trainer.saved_model_file).exists():
            self.model.load_state_dict(torch.load(trainer.saved_model_file, weights_only=False)["state_dict"])
        self.model.eval()
        self.own = {key: float(value) for key, value in trainer.evaluate(test_data, load_best_model=False).items()}
        tokens = data.field2id_token["user_id"], data.field2id_token["item_id"]
        self.users = {int(token): number for number, token in enumerate(tokens[0]) if number}
        self.items = np.array([int(token) for token in tokens[1][1:]])  # 0 is padding
        super().__init__(split["train"], self.score, {})

    @torch.no_grad()
    def score(self, users: np.ndarray) -> np.ndarray:
        numbers = torch.tensor([self.users.get(int(user), 0) for user in users])
        try:
            found = self.model.full_sort_predict(Interaction({"user_id": numbers}))
        except NotImplementedError:
            count = len(self.items) + 1
            pairs = {"user_id": numbers.repeat_interleave(count), "item_id": torch.arange(count).repeat(len(numbers))}
            found = self.model.predict(Interaction(pairs))
        out = np.full((len(users), self.train.shape[1]), -np.inf, dtype=np.float32)
        out[:, self.items] = torch.as_tensor(np.asarray(found)).reshape(len(users), -1)[:, 1:].numpy()
        return out

    def save(self, folder: Path) -> None:
        torch.save(self.model.state_dict(), folder / "model.pt")
        for name, value in vars(self.model).items():  # what is solved and not learned is no parameter there
            if isinstance(value, np.ndarray) and value.ndim == 2 and value.size > 1:
                np.save(folder / name, value)
            elif sp.issparse(value) and name not in ("interaction_matrix", "inter_matrix"):
                sp.save_npz(folder / name, value.tocsr(), compressed=False)


if __name__ == "__main__":
    names = ("LightGCN", "SimpleX", "BPR", "EASE", "ItemKNN")
    main({name: lambda split, settings, name=name: Model(name, split, settings) for name in names})
