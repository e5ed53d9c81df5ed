# SPDX-License-Identifier: Apache-2.0
"""Offer Dask to legcf: `data prepare --engine dask` and `search --scheduler`."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from legcf.core.config import RunConfig
from legcf.core.errors import UserError
from legcf.data.engines import Engine, Trained
from legcf_studies.workers.dask_engine import dask_client, prepare_on_dask
from legcf_studies.workers.machine import code_version
from legcf_studies.workers.process import RETRIES, Outcome, WorkerJob, done_here


@contextmanager
def training_on_dask(
    data: Mapping[str, Any], content_hash: str, scheduler: str
) -> Iterator[tuple[Callable[[RunConfig], Trained], int]]:
    """Yield what trains a configuration on the workers of a scheduler, and how many they train at a time."""
    with dask_client(scheduler, "--scheduler") as client:

        def train(config: RunConfig) -> Trained:
            job = WorkerJob(data["source"], data.get("options", {}), content_hash, config.to_json(), code_version())
            outcome = Outcome.from_bytes(client.submit(done_here, job.to_json(), retries=RETRIES, pure=False).result())
            if outcome.error is not None:
                raise UserError(outcome.error)
            return outcome.metrics, outcome.curve

        yield train, max(1, sum(client.nthreads().values()))


DASK = Engine(prepare_on_dask, training_on_dask)
