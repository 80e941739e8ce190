"""Passes run in turn; ratios are those of single rounds."""

from benchmarks.timing import Timing, cpu_seconds, paired


def test_passes_alternate_and_the_warm_up_does_not_count():
    order = []
    times = iter([100.0, 100.0, 3.0, 1.0, 4.0, 2.0, 9.0, 1.0])

    def clock(work):
        work()
        return next(times, 0.0) or 5.0

    timing = paired(lambda: order.append("a"), lambda: order.append("b"), clock, seconds=0.0)
    assert order == ["a", "b"] * (1 + timing.rounds)
    assert (timing.measured[0], timing.baseline[0]) == (3.0, 1.0)


def test_the_ratio_is_the_median_over_rounds():
    timing = Timing([3.0, 4.0, 9.0], [1.0, 2.0, 1.0])
    assert timing.rounds == 3
    assert timing.ratio == 3.0


def test_more_time_means_more_rounds_up_to_a_limit():
    rounds = [paired(int, int, cpu_seconds, seconds).rounds for seconds in (1e-9, 30.0)]
    assert rounds[0] < rounds[1] == 300
