"""Symmetrisation on worked examples, and its bounds on random ones; fertilities."""

import numpy as np
import pytest

from repro.data.alignment.links import fertilities, grow_diag_final_and, largest_fertilities


def links(*pairs):
    return frozenset(pairs)


@pytest.mark.parametrize(
    ("forward", "backward", "grown"),
    [
        ([(0, 0), (1, 1), (1, 2)], [(0, 0), (1, 1)], [(0, 0), (1, 1), (1, 2)]),
        ([(0, 0), (4, 4)], [(0, 0)], [(0, 0), (4, 4)]),
        ([(0, 0), (0, 4)], [(0, 0)], [(0, 0)]),
        ([(0, 0), (0, 1), (1, 1)], [(0, 0), (1, 1)], [(0, 0), (1, 1)]),
        ([(0, 0), (1, 1), (2, 2), (3, 3)], [(0, 0)], [(0, 0), (1, 1), (2, 2), (3, 3)]),
    ],
    ids=["neighbors", "far, both words free", "one taken", "both taken", "from grown links"],
)
def test_links_are_added_to_the_intersection(forward, backward, grown):
    assert grow_diag_final_and(links(*forward), links(*backward)) == links(*grown)


def test_result_lies_between_intersection_and_union_and_keeps_agreement():
    generator = np.random.default_rng(0)
    for _ in range(200):
        forward, backward = (
            frozenset(map(tuple, generator.integers(0, 6, (5, 2)).tolist())) for _ in range(2)
        )
        result = grow_diag_final_and(forward, backward)
        assert forward & backward <= result <= forward | backward
        left_over = {
            (j, i)
            for j, i in (forward | backward) - result
            if j not in {a for a, _ in result} and i not in {b for _, b in result}
        }
        assert not left_over


def test_fertilities_count_links_of_every_position():
    assert fertilities(links((0, 0), (0, 3), (2, 1)), 4) == [2, 0, 1, 0]


def test_largest_fertility_of_a_word_is_at_least_one():
    sentences = [["a", "b"], ["a", "c"]]
    alignments = [links((0, 0), (0, 1)), links((0, 0))]
    assert largest_fertilities(sentences, alignments) == {"a": 2, "b": 1, "c": 1}
