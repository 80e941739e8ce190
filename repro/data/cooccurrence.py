r"""Word vectors from co-occurrences in plain text, if pretrained vectors are not available.

A word and a context are counted together when they are at most ``WINDOW`` words apart, with
weight ``1 / distance``. The positive part of their pointwise mutual information, contexts smoothed
by the power 0.75,

.. math:: M_{wc} = \max\Bigl(0, \log \frac{n_{wc}\, \sum_{c'} n_{c'}^{0.75}}{n_w\, n_c^{0.75}}
    \Bigr) \approx U \Sigma V^\top,

is decomposed, and the vectors are the rows of :math:`U \Sigma^{1/2}`, scaled to a given standard
deviation.

References:
    Levy, Goldberg and Dagan (2015), Improving distributional similarity with lessons learned from
    word embeddings, §2 and §3; Bullinaria and Levy (2012).
"""

from collections.abc import Iterable, Sequence

import numpy as np
import torch
from scipy import sparse
from scipy.sparse.linalg import svds

from repro.data.embeddings import FoundVectors
from repro.data.vocabulary import Vocabulary
from repro.errors import DataError

WINDOW = 5
SMOOTHING = 0.75
_OUTSIDE = -1


def cooccurrence_vectors(
    sentences: Iterable[Sequence[str]], vocabulary: Vocabulary, dimension: int, deviation: float
) -> FoundVectors:
    """Compute vectors of the words of a vocabulary that co-occur with others of it in a text.

    Words outside the vocabulary count only towards distances. ``deviation`` is the standard
    deviation over the components of all vectors.

    Raises:
        DataError: no more than ``dimension`` words co-occur with others.
    """
    # Weighted counts of word and context, symmetric, shape (words, words).
    ids = {token: index for index, token in enumerate(vocabulary.tokens)}
    gap = [_OUTSIDE] * WINDOW  # no pairs across sentences
    text = np.array(
        [i for sentence in sentences for i in (*(ids.get(w, _OUTSIDE) for w in sentence), *gap)]
        or gap,
        dtype=np.int64,
    )
    size = (len(vocabulary), len(vocabulary))
    total = sparse.csr_array(size, dtype=np.float64)
    for distance in range(1, WINDOW + 1):
        word, context = text[:-distance], text[distance:]
        inside = (word != _OUTSIDE) & (context != _OUTSIDE)
        weights = np.full(int(inside.sum()), 1.0 / distance)
        pairs = (word[inside], context[inside])
        total = total + sparse.coo_array((weights, pairs), shape=size).tocsr()
    counts = (total + total.T).tocsr()
    rows = np.flatnonzero(np.asarray(counts.sum(1)).ravel())
    if len(rows) <= dimension:
        raise DataError(
            f"model.vector_size={dimension} needs more than {dimension} words with neighbors in "
            f"the text, found {len(rows)}; set it below {len(rows)}, or add text with data.text"
        )
    # Positive pointwise mutual information of the words that have neighbors.
    counts = counts[rows][:, rows]
    occurrences = np.asarray(counts.sum(1)).ravel()
    contexts = occurrences**SMOOTHING
    contexts /= contexts.sum()
    found = counts.tocoo()
    word, context = found.coords
    logarithms = np.log(found.data / (occurrences[word] * contexts[context]))
    kept = logarithms > 0
    pairs = (word[kept], context[kept])
    information = sparse.coo_array((logarithms[kept], pairs), shape=counts.shape).tocsr()
    left, values, _ = svds(information, k=dimension, rng=0)
    vectors = left * np.sqrt(values)
    vectors *= deviation / vectors.std()
    single = np.ascontiguousarray(vectors, dtype=np.float32)
    return FoundVectors(torch.from_numpy(rows), torch.from_numpy(single))
