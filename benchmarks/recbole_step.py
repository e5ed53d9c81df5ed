# SPDX-License-Identifier: Apache-2.0
"""A training step of RecBole's LightGCN, timed: run by bench_backbones.py in an environment of its own.

python recbole_step.py DATA_FOLDER WIDTH BATCH ROUNDS THREADS    prints {"seconds": …} as its last line
"""

import json
import logging
import sys
import time

import numpy as np
import scipy.sparse as sp
import torch

folder, width, batch, rounds, threads = sys.argv[1], *map(int, sys.argv[2:])
torch.set_num_threads(threads)

# RecBole 1.2.1 was written for older releases of scipy: a name that it has dropped since.
if not hasattr(sp.dok_matrix, "_update"):
    sp.dok_matrix._update = lambda self, values: self._dict.update(values)

from recbole.config import Config  # noqa: E402
from recbole.data import create_dataset, data_preparation  # noqa: E402
from recbole.model.general_recommender import LightGCN  # noqa: E402

logging.disable(logging.CRITICAL)
config = Config(
    model="LightGCN",
    dataset="legcf",
    config_dict={
        "data_path": folder,
        "use_gpu": False,
        "embedding_size": width,
        "n_layers": 3,
        "reg_weight": 1e-4,
        "train_batch_size": batch,
        "load_col": {"inter": ["user_id", "item_id"]},
        "eval_args": {"split": {"RS": [1.0, 0.0, 0.0]}, "order": "RO", "group_by": None, "mode": "full"},
        "worker": 0,
    },
)
dataset = create_dataset(config)
train_data, _, _ = data_preparation(config, dataset)
model = LightGCN(config, train_data.dataset)
optimiser = torch.optim.Adam(model.parameters(), lr=1e-3)
times = []
for number, interaction in enumerate(train_data):
    if number == rounds + 2:
        break
    started = time.perf_counter()
    optimiser.zero_grad()
    model.calculate_loss(interaction).backward()
    optimiser.step()
    times.append(time.perf_counter() - started)
print(json.dumps({"seconds": float(np.median(times[2:]))}))
