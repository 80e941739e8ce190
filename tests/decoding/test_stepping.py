import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from repro.decoding.search import log_probabilities, most_probable

probabilities = st.sampled_from([0.0, -0.0, 2.0**-149, 1e-30, 0.1, 0.25, 0.5, 1.0])


@settings(max_examples=200, derandomize=True, database=None)
@given(st.lists(probabilities, min_size=1, max_size=12), st.data())
def test_most_probable_orders_by_value_then_by_id(row, data):
    count = data.draw(st.integers(1, len(row)))
    expected = sorted(range(len(row)), key=lambda token: (-row[token], token))[:count]
    assert most_probable(torch.tensor([row]), count).tolist() == [expected]


def test_most_probable_reads_rows_that_are_not_contiguous():
    probs = torch.tensor([[0.1, 0.7], [0.2, 0.1], [0.7, 0.2]]).T
    assert most_probable(probs, 2).tolist() == [[2, 1], [0, 2]]


def test_the_logarithm_of_zero_is_minus_infinity_and_never_nan():
    logs = log_probabilities(torch.tensor([0.0, -0.0, 1.0, 1.0 + 1e-6]))
    assert logs.tolist() == [float("-inf"), float("-inf"), 0.0, 0.0]
    assert logs.dtype == torch.float64
