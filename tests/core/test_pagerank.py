import math

import igraph
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import coo_array, csr_array

from hippo_core.errors import InputError
from hippo_core.pagerank import personalized_pagerank, transition_matrix

DAMPINGS = [0.0, 0.1, 0.5, 0.85, 0.99]
ROUNDING = 1e-14  # what float64 sums of these sizes may lose


def adjacency(n, edges):
    """Symmetric weights of undirected edges; parallel ones add, a loop counts once."""
    both = [*edges, *((v, u, weight) for u, v, weight in edges if u != v)]
    u, v, weights = zip(*both, strict=True) if both else ((), (), ())
    return csr_array(coo_array((np.array(weights, dtype=float), (u, v)), shape=(n, n)))


def pagerank(n, edges, reset, **settings):
    return personalized_pagerank(transition_matrix(adjacency(n, edges)), reset, **settings)


def solved(matrix, reset, damping):
    """The fixed point by a dense linear solve."""
    dense = matrix.toarray()
    n = len(dense)
    reset = np.maximum(reset, 0) / np.maximum(reset, 0).sum()
    degree = dense.sum(axis=1)
    steps = np.divide(dense, degree, out=np.zeros_like(dense), where=degree > 0)
    steps[:, degree == 0] = reset[:, np.newaxis]
    return np.linalg.solve(np.eye(n) - damping * steps, (1 - damping) * reset)


@st.composite
def graphs(draw, *, loops=False, isolated=True):
    n = draw(st.integers(1 if isolated else 2, 10))
    weights = st.floats(1e-6, 1e3)
    nodes = st.integers(0, n - 1)
    edges = [
        (u, v, weight)
        for u, v, weight in draw(st.lists(st.tuples(nodes, nodes, weights), max_size=20))
        if loops or u != v
    ]
    if not isolated:
        edges += [(u, (u + 1) % n, draw(weights)) for u in range(n)]
    return n, edges


@st.composite
def seeded_graphs(draw, **kind):
    n, edges = draw(graphs(**kind))
    resets = st.lists(st.floats(0, 1) | st.just(0.0), min_size=n, max_size=n)
    return n, edges, np.array(draw(resets.filter(lambda reset: max(reset) > 1e-3)))


dampings = st.floats(0, 0.95)


def igraph_scores(n, edges, reset, damping):
    graph = igraph.Graph(n=n, edges=[(u, v) for u, v, _ in edges])
    return graph.personalized_pagerank(
        directed=False,
        damping=damping,
        reset=list(reset),
        weights=[weight for _, _, weight in edges],
        implementation="prpack",
    )


@given(seeded_graphs(), st.floats(0.01, 0.95))
def test_scores_equal_those_of_igraph(seeded, damping):
    n, edges, reset = seeded
    found = pagerank(n, edges, reset, damping=damping).scores
    assert found == pytest.approx(igraph_scores(n, edges, reset, damping), abs=1e-9, rel=0)


@pytest.mark.parametrize("damping", [0.1, 0.5, 0.85])
def test_scores_of_a_graph_of_two_thousand_nodes_equal_those_of_igraph(damping):
    random = np.random.default_rng(3)
    n = 2000
    ends = random.integers(0, n - 200, (6000, 2))  # the last 200 are isolated
    edges = [
        (u, v, w) for (u, v), w in zip(ends.tolist(), random.random(6000), strict=True) if u != v
    ]
    reset = random.random(n) * (random.random(n) < 0.05)
    found = pagerank(n, edges, reset, damping=damping).scores
    assert np.abs(found - igraph_scores(n, edges, reset, damping)).max() < 1e-9


TABLE = {
    0.5: [0.264658, 0.159032, 0.121234, 0.031086, 0.050857, 0.373134, 0],
    0.1: [0.312133, 0.034875, 0.106012, 0.005437, 0.024302, 0.517241, 0],
    0.85: [0.202345, 0.255647, 0.198758, 0.086638, 0.105097, 0.151515, 0],
}


@pytest.mark.parametrize("damping", TABLE)
def test_the_published_systems_give_this_table(damping):
    edges = [(0, 1, 1), (1, 0, 1), (1, 2, 0.9), (2, 3, 2), (4, 1, 1), (4, 2, 1)]
    found = pagerank(7, edges, [0.3, 0, 0.1, 0, 0.02, 0.5, 0], damping=damping).scores
    assert found.round(6).tolist() == TABLE[damping]


@given(seeded_graphs(loops=True), dampings)
def test_mass_sums_to_one_and_is_nowhere_negative(seeded, damping):
    scores = pagerank(*seeded, damping=damping).scores
    assert scores.sum() == pytest.approx(1, abs=ROUNDING)
    assert scores.min() >= 0


@given(seeded_graphs(loops=True), dampings, st.sampled_from([1e-2, 1e-6, 1e-12]))
def test_the_bound_is_honest(seeded, damping, tolerance):
    n, edges, reset = seeded
    found = pagerank(n, edges, reset, damping=damping, tolerance=tolerance)
    assert found.bound <= tolerance
    exact = solved(adjacency(n, edges), reset, damping)
    assert np.abs(found.scores - exact).sum() <= found.bound + 20 * ROUNDING


@pytest.mark.parametrize("tolerance", [1e-3, 1e-6])
def test_the_bound_is_within_reach(tolerance):
    """On an alternating walk the error is all that the bound allows."""
    found = pagerank(2, [(0, 1, 1)], [1, 0], damping=0.9, tolerance=tolerance)
    error = np.abs(found.scores - [1 / 1.9, 0.9 / 1.9]).sum()
    assert 0.01 * tolerance < error <= found.bound <= tolerance


def test_the_walk_ends_where_rounding_forbids_the_tolerance():
    random = np.random.default_rng(0)
    edges = [(*random.integers(0, 50, 2).tolist(), random.random()) for _ in range(200)]
    found = pagerank(50, edges, random.random(50), damping=0.9, tolerance=1e-300)
    assert found.iterations < 7000
    assert found.bound < 1e-13
    assert found.scores.sum() == pytest.approx(1, abs=ROUNDING)


@given(seeded_graphs(isolated=False), st.floats(0.1, 9), st.randoms(use_true_random=False))
def test_scores_are_linear_in_the_reset_where_no_node_is_isolated(seeded, factor, random):
    n, edges, reset = seeded
    other = np.array([random.random() for _ in range(n)])
    shares = np.array([reset.sum(), factor * other.sum()])
    shares /= shares.sum()
    mixed = (
        shares[0] * pagerank(n, edges, reset).scores + shares[1] * pagerank(n, edges, other).scores
    )
    assert pagerank(n, edges, reset + factor * other).scores == pytest.approx(mixed, abs=1e-11)


@pytest.mark.parametrize("damping", DAMPINGS)
def test_a_ring_with_equal_seeds_is_uniform(damping):
    ring = [(u, (u + 1) % 7, 3.0) for u in range(7)]
    assert pagerank(7, ring, np.ones(7), damping=damping).scores == pytest.approx([1 / 7] * 7)


@pytest.mark.parametrize("damping", DAMPINGS)
def test_a_star_seeded_at_its_centre_shares_out_equally(damping):
    star = [(0, leaf, 1.0) for leaf in range(1, 6)]
    scores = pagerank(6, star, [1, 0, 0, 0, 0, 0], damping=damping).scores
    assert scores == pytest.approx([1 / (1 + damping)] + [damping / (1 + damping) / 5] * 5)


@pytest.mark.parametrize("damping", DAMPINGS)
def test_a_star_seeded_at_a_leaf_prefers_that_leaf(damping):
    star = [(0, leaf, 1.0) for leaf in range(1, 6)]
    scores = pagerank(6, star, [0, 0, 0, 1, 0, 0], damping=damping).scores
    centre = damping / (1 + damping)
    leaf = damping * centre / 5
    assert scores == pytest.approx([centre, leaf, leaf, 1 - damping + leaf, leaf, leaf])


@pytest.mark.parametrize("damping", DAMPINGS)
def test_mass_stays_in_the_component_of_its_seed(damping):
    pairs = [(2 * pair, 2 * pair + 1, pair + 0.5) for pair in range(10)]
    for seed in range(20):
        scores = pagerank(20, pairs, np.eye(20)[seed], damping=damping).scores
        expected = np.zeros(20)
        expected[[seed, seed ^ 1]] = 1 / (1 + damping), damping / (1 + damping)
        assert scores == pytest.approx(expected)
        assert not scores[expected == 0].any()


@pytest.mark.parametrize("damping", [5e-324, 1e-20, 0.999])
def test_any_damping_below_one_ends_within_the_tolerance(damping):
    found = pagerank(3, [(0, 1, 1), (1, 2, 1)], [1, 0, 0], damping=damping, tolerance=1e-9)
    assert found.bound <= 1e-9
    assert found.scores.sum() == pytest.approx(1)


@pytest.mark.parametrize("damping", DAMPINGS)
def test_a_graph_without_edges_returns_its_seeds(damping):
    assert pagerank(4, [], [1, 0, 3, 0], damping=damping).scores.tolist() == [0.25, 0, 0.75, 0]


def test_no_damping_returns_the_seeds():
    found = pagerank(3, [(0, 1, 1), (1, 2, 1)], [2, 0, 2], damping=0.0)
    assert found.scores.tolist() == [0.5, 0, 0.5]
    assert found.bound == 0


def test_without_a_seed_there_is_no_mass():
    for reset in ([0.0, 0.0], [-1.0, 0.0]):
        scores, bound, iterations = pagerank(2, [(0, 1, 1)], reset)
        assert scores.tolist() == [0, 0]
        assert (bound, iterations) == (0, 0)


def test_a_graph_without_nodes_has_no_scores():
    scores, bound, iterations = pagerank(0, [], [])
    assert scores.shape == (0,)
    assert (bound, iterations) == (0, 0)


def test_a_negative_seed_counts_as_none():
    edges = [(0, 1, 1), (1, 2, 1)]
    clipped = pagerank(3, edges, [1, 0, 2]).scores
    assert pagerank(3, edges, [1, -5, 2]).scores.tolist() == clipped.tolist()


@given(seeded_graphs(), st.sampled_from([1e-300, 1e-9, 1e9, 1e300]))
def test_the_scale_of_the_reset_does_not_matter(seeded, factor):
    n, edges, reset = seeded
    scores = pagerank(n, edges, reset).scores
    assert pagerank(n, edges, reset * factor).scores == pytest.approx(scores, abs=1e-13)


@given(seeded_graphs(), st.sampled_from([2.0**-1000, 2.0**-40, 2.0**900]))
def test_the_scale_of_the_weights_does_not_matter(seeded, factor):
    n, edges, reset = seeded
    scores = pagerank(n, edges, reset).scores
    scaled = [(u, v, weight * factor) for u, v, weight in edges]
    assert pagerank(n, scaled, reset).scores == pytest.approx(scores, abs=1e-13)


def test_the_smallest_weight_carries_a_walk():
    smallest = math.ulp(0.0)
    expected = pagerank(3, [(0, 1, 1), (1, 2, 1)], [1, 0, 0]).scores
    edges = [(0, 1, smallest), (1, 2, smallest)]
    assert pagerank(3, edges, [1, 0, 0]).scores == pytest.approx(expected)


def test_an_edge_of_weight_zero_is_no_edge():
    matrix = csr_array(([0.0, 0.0, 1.0, 1.0], [1, 0, 3, 2], [0, 1, 2, 3, 4]), shape=(4, 4))
    scores = personalized_pagerank(transition_matrix(matrix), [1, 0, 0, 0]).scores
    assert scores.tolist() == [1, 0, 0, 0]


def test_a_self_loop_keeps_its_share_of_the_mass():
    # Node 0 keeps half of what it passes on: p0 = (1-d) + d (p0/2 + p1), p1 = d p0/2.
    scores = pagerank(2, [(0, 0, 1), (0, 1, 1)], [1, 0], damping=0.5).scores
    assert scores == pytest.approx([0.8, 0.2])


def test_the_same_walk_twice_gives_the_same_bits():
    random = np.random.default_rng(5)
    edges = [(*random.integers(0, 300, 2).tolist(), random.random()) for _ in range(900)]
    reset = random.random(300)
    one, other = (pagerank(300, edges, reset) for _ in range(2))
    assert one.scores.tobytes() == other.scores.tobytes()
    assert one[1:] == other[1:]


def test_row_sums_may_be_given():
    matrix = adjacency(4, [(0, 1, 2), (1, 2, 3)])
    prepared = transition_matrix(matrix, out_weight=matrix.sum(axis=1))
    assert prepared.walk.toarray().tolist() == transition_matrix(matrix).walk.toarray().tolist()
    assert prepared.dangling.tolist() == [3]


def test_neither_the_graph_nor_the_reset_is_changed():
    matrix = adjacency(3, [(0, 1, 2), (1, 2, 3)])
    before, reset = matrix.toarray(), np.array([1.0, -1.0, 3.0])
    personalized_pagerank(transition_matrix(matrix), reset)
    assert matrix.toarray().tolist() == before.tolist()
    assert reset.tolist() == [1, -1, 3]


@pytest.mark.parametrize(
    ("reset", "complaint"),
    [
        ([1.0], r"shape \(2,\), got \(1,\)"),
        ([[1.0, 0.0]], r"shape \(2,\), got \(1, 2\)"),
        ([math.nan, 1.0], "finite, got nan"),
        ([1.0, math.inf], "finite, got inf"),
    ],
)
def test_an_unusable_reset_is_refused(reset, complaint):
    with pytest.raises(InputError, match=complaint):
        pagerank(2, [(0, 1, 1)], reset)


@pytest.mark.parametrize(
    "setting",
    [{"damping": d} for d in (-0.1, 1.0, math.nan)]
    + [{"tolerance": t} for t in (0.0, -1.0, math.nan, math.inf)],
)
def test_an_unusable_setting_is_refused(setting):
    with pytest.raises(InputError, match=next(iter(setting))):
        pagerank(2, [(0, 1, 1)], [1, 0], **setting)


@pytest.mark.parametrize("weight", [-1.0, math.nan, math.inf])
def test_an_unusable_weight_is_refused(weight):
    with pytest.raises(InputError, match="finite"):
        transition_matrix(adjacency(3, [(0, 1, 1), (1, 2, weight)]))


def test_an_unusable_graph_is_refused():
    with pytest.raises(InputError, match=r"square, got shape \(2, 3\)"):
        transition_matrix(csr_array((2, 3)))
    with pytest.raises(InputError, match=r"shape \(2,\), got \(3,\)"):
        transition_matrix(csr_array((2, 2)), out_weight=np.zeros(3))
    with pytest.raises(InputError, match="finite sum"):
        transition_matrix(adjacency(3, [(0, 1, 1.5e308), (1, 2, 1.5e308)]))
