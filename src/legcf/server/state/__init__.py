# SPDX-License-Identifier: Apache-2.0
"""Keep what the server knows: the model, the event log, the response cache.

One model has four names, each holding the one before: a `ServedModel` is what a file holds, a `Scorer` answers from
it, a `LoadedModel` is a scorer under the tag of its file with the cache of its answers, and the `ModelManager` says
which loaded model is in use. `LiveState` adds what the event log has beyond the file.
"""
