# SPDX-License-Identifier: Apache-2.0
"""A Dask cluster that all tests share. Its workers are forked like other processes of tests: see `tests/forked.py`."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.forked import PRELOADED

if TYPE_CHECKING:
    import distributed

pytest_plugins = ["tests.fixtures", "tests.served"]


@pytest.fixture(scope="session")
def cluster() -> Iterator["distributed.LocalCluster"]:
    distributed = pytest.importorskip("distributed")
    import dask
    from distributed.utils import get_mp_context

    with dask.config.set({"distributed.worker.multiprocessing-method": "forkserver"}):
        get_mp_context().set_forkserver_preload([*PRELOADED, "distributed"])  # after Dask has set its own, once
        with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster:
            yield cluster
