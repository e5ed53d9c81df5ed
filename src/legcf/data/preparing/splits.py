# SPDX-License-Identifier: Apache-2.0
"""Split pairs into train, validation and test. A protocol labels every pair once, so no pair is in two parts.

Random protocols draw one number for each pair in canonical order from one seeded generator; the split is therefore the
same however the pairs were ordered in the file and however many blocks they came in.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from legcf.core.errors import UserError
from legcf.core.plugins import find_part
from legcf.data.options import DataOptions
from legcf.data.preparing.blocks import Block
from legcf.data.preparing.kernels import smallest_of_each_row

PARTS = ("train", "validation", "test")
TRAIN, VALIDATION, TEST = range(3)

Labels = NDArray[np.uint8]
Splitter = Callable[[Block], Labels]
Start = Callable[[DataOptions, np.random.Generator, Iterable[Block]], Splitter]


@dataclass(frozen=True)
class Protocol:
    """Define a protocol. `start` reads the blocks if it must, and returns a function that labels each block in turn."""

    name: str
    summary: str
    start: Start
    needs_test: bool = False
    needs_time: bool = False

    def check(self, has_test: bool, has_time: bool, where: str) -> None:
        if self.needs_test and not has_test:
            raise UserError(
                f"Protocol `{self.name}` needs a folder with train.txt and test.txt, which {where} is not: "
                "choose `--protocol ratio`, which draws its own test part."
            )
        if self.needs_time and not has_time:
            raise UserError(
                f"Protocol `{self.name}` needs times, but {where} has no time column: name it with `--time-col`, "
                "or choose `--protocol ratio`."
            )


def find_protocol(name: str) -> Protocol:
    return find_part("protocol", name, PROTOCOLS)


def _each(label: Callable[[Block, DataOptions, np.random.Generator], Labels]) -> Start:
    """Return the start of a protocol that looks at one block at a time."""
    return lambda options, rng, blocks: lambda block: label(block, options, rng)


def _legcf(block: Block, options: DataOptions, rng: np.random.Generator) -> Labels:
    testing = _testing(block)
    keys = np.where(testing, rng.random(len(testing)), np.inf)
    validating = smallest_of_each_row(block.indptr, keys, -(-block.subset(testing).degrees // 3))
    return _labels(validation=validating, test=testing & ~validating)


def _ngcf(block: Block, options: DataOptions, rng: np.random.Generator) -> Labels:
    testing = _testing(block)
    keys = np.where(testing, np.inf, rng.random(len(testing)))
    counts = _share(block.subset(~testing).degrees, options.validation_ratio, leave=1)
    return _labels(validation=smallest_of_each_row(block.indptr, keys, counts), test=testing)


def _lightgcn(block: Block, options: DataOptions, rng: np.random.Generator) -> Labels:
    testing = _testing(block)
    return _labels(validation=np.zeros_like(testing), test=testing)


def _ratio(block: Block, options: DataOptions, rng: np.random.Generator) -> Labels:
    test_counts = _share(block.degrees, options.test_ratio, leave=1)
    validation_counts = _share(block.degrees, options.validation_ratio, leave=1 + test_counts)
    return _first_of_each_row(block, rng.random(len(block.items)), test_counts, validation_counts)


def _last_out(block: Block, options: DataOptions, rng: np.random.Generator) -> Labels:
    assert block.times is not None
    return _first_of_each_row(block, -block.times, block.degrees >= 2, block.degrees >= 3)


def _temporal(options: DataOptions, rng: np.random.Generator, blocks: Iterable[Block]) -> Splitter:
    times = np.concatenate([block.times for block in blocks if block.times is not None])
    times.sort()
    held_out = int(len(times) * (options.validation_ratio + options.test_ratio) + 0.5)
    tested = int(len(times) * options.test_ratio + 0.5)
    # Pairs of the same moment stay together, on the earlier side of a boundary.
    train_ends = times[max(len(times) - held_out, 1) - 1]
    validation_ends = times[max(len(times) - tested, 1) - 1]

    def label(block: Block) -> Labels:
        assert block.times is not None
        test = block.times > validation_ends
        return _labels(validation=(block.times > train_ends) & ~test, test=test)

    return label


def _testing(block: Block) -> NDArray[np.bool_]:
    assert block.testing is not None
    return block.testing


def _share(degrees: NDArray[np.int64], ratio: float, leave: int | NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the ratio of each degree, rounded half up, but never so much that fewer than `leave` pairs stay."""
    rounded = np.floor(degrees * ratio + 0.5).astype(np.int64)
    shares: NDArray[np.int64] = np.minimum(rounded, np.maximum(degrees - leave, 0))
    return shares


def _first_of_each_row(
    block: Block, keys: NDArray[Any], test_counts: NDArray[Any], validation_counts: NDArray[Any]
) -> Labels:
    """Label the smallest keys of each row as test, the next ones as validation."""
    tested = test_counts.astype(np.int64)
    test = smallest_of_each_row(block.indptr, keys, tested)
    held_out = smallest_of_each_row(block.indptr, keys, tested + validation_counts.astype(np.int64))
    return _labels(validation=held_out & ~test, test=test)


def _labels(validation: NDArray[np.bool_], test: NDArray[np.bool_]) -> Labels:
    return validation.astype(np.uint8) * np.uint8(VALIDATION) + test.astype(np.uint8) * np.uint8(TEST)


PROTOCOLS = {
    protocol.name: protocol
    for protocol in (
        Protocol("legcf", "a third of each user's test items, rounded up, validates", _each(_legcf), needs_test=True),
        Protocol("ngcf", "a tenth of each user's train items validates", _each(_ngcf), needs_test=True),
        Protocol("lightgcn", "train.txt trains, test.txt tests, nothing validates", _each(_lightgcn), needs_test=True),
        Protocol("ratio", "of each user's pairs a random tenth validates and a random fifth tests", _each(_ratio)),
        Protocol(
            "leave-last-out", "each user's last pair tests, the one before validates", _each(_last_out), needs_time=True
        ),
        Protocol("temporal", "the latest fifth of all pairs tests, the tenth before validates", _temporal, False, True),
    )
}
