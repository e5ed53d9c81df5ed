# SPDX-License-Identifier: Apache-2.0
"""The graphs of Eq. 2, 5 and 7 against dense ones."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from legcf.assignment.assignment import Assignment
from legcf.core.arrays import inverse_power
from legcf.data.interactions import Interactions
from legcf.graph.adjacency import bipartite, degrees, expanded, normalised
from tests.helpers import assigned_graphs, csr, dense_bipartite, dense_expanded, dense_normalised, graphs

Assigned = tuple[Interactions, Assignment]


@given(graphs())
def test_bipartite_is_the_two_blocks(train: Interactions) -> None:
    adjacency = bipartite(train)
    assert np.array_equal(adjacency.toarray(), dense_bipartite(train))
    assert adjacency.indices.dtype == adjacency.indptr.dtype == np.int32
    assert adjacency.has_sorted_indices


@given(assigned_graphs())
def test_expanded_joins_buckets_as_nodes(assigned: Assigned) -> None:
    train, assignment = assigned
    graph = expanded(bipartite(train), assignment.to_csr())
    wanted = dense_expanded(dense_bipartite(train), assignment.to_csr().toarray())
    assert np.allclose(graph.toarray(), wanted)
    assert graph.indices.dtype == np.int32
    assert graph.has_sorted_indices
    assert (graph != graph.T).nnz == 0


@given(assigned_graphs())
def test_normalised_against_dense(assigned: Assigned) -> None:
    train, assignment = assigned
    graph = expanded(bipartite(train), assignment.to_csr())
    assert np.allclose(normalised(graph).toarray(), dense_normalised(graph.toarray().astype(np.float64)), atol=1e-6)


@given(graphs())
def test_normalised_fixes_the_root_of_degrees_and_has_radius_one(train: Interactions) -> None:
    adjacency = bipartite(train)
    operator = normalised(adjacency).toarray()
    root = np.sqrt(degrees(adjacency))
    assert np.allclose(operator @ root, root, atol=1e-5)
    radius = np.abs(np.linalg.eigvalsh(operator)).max()
    assert radius <= 1 + 1e-5
    if train.num_pairs:
        assert radius >= 1 - 1e-5


@given(graphs(), st.randoms(use_true_random=False))
def test_permuting_users_permutes_rows(train: Interactions, random: object) -> None:
    order = np.random.default_rng(random.randrange(2**32)).permutation(train.num_users)  # type: ignore[attr-defined]
    moved = Interactions.from_pairs(order[train.users()], train.items, train.num_users, train.num_items)
    place = np.concatenate([order, np.arange(train.num_users, train.num_users + train.num_items)])
    before, after = normalised(bipartite(train)).toarray(), normalised(bipartite(moved)).toarray()
    assert np.allclose(after[np.ix_(place, place)], before, atol=1e-6)


@given(assigned_graphs())
def test_row_sums_of_the_twice_normalised_graph(assigned: Assigned) -> None:
    """The release: Â's row sums and S's, before the second normalisation."""
    train, assignment = assigned
    inner = normalised(bipartite(train))
    graph = expanded(inner, assignment.to_csr())
    entities = train.num_users + train.num_items
    wanted = degrees(inner) + assignment.weights.sum(axis=1)
    assert np.allclose(degrees(graph)[:entities], wanted, atol=1e-5)


def test_nodes_without_edges_stay_zero() -> None:
    assert np.array_equal(inverse_power(np.array([0.0, 4.0]), 0.5), [0.0, 0.5])
    assert normalised(csr(np.zeros((3, 3)))).nnz == 0
