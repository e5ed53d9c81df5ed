# SPDX-License-Identifier: Apache-2.0
"""Name the columns of frames that legcf makes."""


class FrameColumns:
    """Hold the names that a frame of recommendations, of similar entities or of events has its columns by."""

    USER = "user"
    ITEM = "item"
    TO = "to"
    """The entity that others are similar to."""
    RANK = "rank"
    SCORE = "score"
    TITLE = "title"
    FALLBACK = "fallback"
    """"popular" where somebody of whom nothing is known is shown what most people have."""
    TIME = "timestamp"
    WEIGHT = "weight"
