"""Titles of Gigaword and summaries of DUC.

The Linguistic Data Consortium and NIST license them; users must obtain them themselves.
"""

from repro.data.corpora.corpus import Corpus

GIGAWORD = Corpus(
    name="gigaword",
    title="Gigaword, article–title pairs",
    tasks=("summarization",),
    licence="LDC2012T21, of the Linguistic Data Consortium",
    citation="Rush et al. (2015), A neural attention model for abstractive sentence summarization",
    folder="sumdata",
    sizes={"train": 3_803_957, "dev": 189_651, "test": 1_951},
    obtain="make the pairs as https://github.com/harvardnlp/sent-summary does; they need a licence "
    "of the LDC (LDC2012T21)",
    reads=(
        *(
            f"train/{split}.{kind}*.txt"
            for split in ("train", "valid")
            for kind in ("article", "title")
        ),
        "Giga/input.txt",
        "Giga/task1_ref0.txt",
    ),
)
DUC = tuple(
    Corpus(
        name=f"duc{year}",
        title=f"DUC {year}, task 1, a further test set of gigaword",
        tasks=("summarization",),
        licence="agreement with NIST",
        citation=f"Over et al. (2007), DUC in context; the data of DUC {year}",
        folder=f"sumdata/DUC{year}",
        sizes={f"test_duc{year}": size},
        obtain="sign the agreements of https://duc.nist.gov/data.html, then write one article on "
        "each line of input.txt and its summaries into task1_ref0.txt to task1_ref3.txt, cleaned "
        "as https://github.com/facebookarchive/NAMAS does; or remove the folder to go without",
        reads=("input.txt", *(f"task1_ref{number}.txt" for number in range(4))),
    )
    for year, size in ((2003, 624), (2004, 500))
)
CORPORA = (GIGAWORD, *DUC)
