"""Parallel corpora that can be fetched as archives: addresses, checksums, licences.

Addresses that are known to be dead (those of wit3.fbk.eu and of opus.nlpl.eu/download.php) are
avoided.
"""

from collections.abc import Mapping
from functools import cache

from repro.data.archives import Archive, ArchivedCorpus
from repro.data.recipes import RECIPES

_TED = "CC BY-NC-ND 4.0"
_WMT = "none stated for the whole; for research"
_WIT3 = "https://raw.githubusercontent.com/hlt-mt/WIT3/master/archive"
_STATMT = "https://data.statmt.org"
_SETIMES = "https://object.pouta.csc.fi/OPUS-SETIMES/v2/moses"

_EUROPARL8 = Archive(f"{_STATMT}/wmt16/translation-task/training-parallel-ep-v8.tgz")
_DEV16 = Archive(
    f"{_STATMT}/wmt16/translation-task/dev.tgz", "md5:4a3dc2760bb077f4308cce96b06e6af6"
)
_TEST16 = Archive(
    f"{_STATMT}/wmt16/translation-task/test.tgz", "md5:3d809cd0c2c86adb2c67034d15c4e446"
)
_DEV17 = Archive(
    f"{_STATMT}/wmt17/translation-task/dev.tgz", "md5:9b1aa63c1cf49dccdd20b962fe313989"
)
_TEST17 = Archive(
    f"{_STATMT}/wmt17/translation-task/test.tgz", "md5:86a1724c276004aa25455ae2a04cef26"
)
_TEST15 = Archive("https://statmt.org/wmt15/test.tgz", "md5:67e3beca15e69fe3d36de149da0a96df")


def _wmt17(file: str) -> Archive:
    return Archive(f"{_STATMT}/wmt17/translation-task/{file}")


_WMT_ARCHIVES: Mapping[str, tuple[Archive, ...]] = {
    "wmt16_ro": (_EUROPARL8, Archive(f"{_SETIMES}/en-ro.txt.zip"), _DEV16, _TEST16),
    "wmt16_de": (
        Archive("https://www.statmt.org/wmt13/training-parallel-europarl-v7.tgz"),
        Archive("https://www.statmt.org/wmt13/training-parallel-commoncrawl.tgz"),
        Archive(f"{_STATMT}/wmt16/translation-task/training-parallel-nc-v11.tgz"),
        _TEST15,
        _TEST16,
    ),
    "wmt16_fi": (
        _EUROPARL8,
        Archive("https://www.statmt.org/wmt15/wiki-titles.tgz"),
        _TEST15,
        _TEST16,
    ),
    "wmt17_lv": (
        _wmt17("training-parallel-ep-v8.tgz"),
        _wmt17("rapid2016.tgz"),
        _wmt17("leta.v1.tgz"),
        _wmt17("dcep.lv-en.v1.tgz"),
        _wmt17("books.lv-en.v1.tgz"),
        _DEV17,
        _TEST17,
    ),
    "wmt17_tr": (Archive(f"{_SETIMES}/en-tr.txt.zip"), _DEV16, _TEST17),
}


@cache
def archived_corpora() -> Mapping[str, ArchivedCorpus]:
    """Every corpus of archives, by name."""
    corpora = (_iwslt2014(), _iwslt2017(), _kftt(), *map(_wmt, _WMT_ARCHIVES))
    return {corpus.name: corpus for corpus in corpora}


def _iwslt2014() -> ArchivedCorpus:
    return ArchivedCorpus(
        name="iwslt2014",
        title="IWSLT 2014, transcripts of TED talks, German and English",
        licence=_TED,
        citation="Cettolo et al. (2014), Report on the 11th IWSLT evaluation campaign",
        folder="iwslt2014",
        wanted=RECIPES["iwslt2014"].names,
        archives=(Archive("https://dl.fbaipublicfiles.com/fairseq/data/iwslt14/de-en.tgz"),),
    )


def _iwslt2017() -> ArchivedCorpus:
    digest = "sha256:ebcd53c53c8df742437e3a0fb964772e78764c3f6d4e38df0b6a2f71abc3a8b4"
    return ArchivedCorpus(
        name="iwslt2017",
        title="IWSLT 2017, transcripts of TED talks, German and English",
        licence=_TED,
        citation="Cettolo et al. (2017), Overview of the IWSLT 2017 evaluation campaign",
        folder="iwslt2017",
        wanted=RECIPES["iwslt2017"].names,
        archives=(Archive(f"{_WIT3}/2017-01-trnted/texts/de/en/de-en.tgz", digest),),
    )


def _kftt() -> ArchivedCorpus:
    return ArchivedCorpus(
        name="kftt",
        title="Kyoto Free Translation Task, Japanese and English",
        licence="CC BY-SA 3.0",
        citation="Neubig (2011), The Kyoto Free Translation Task",
        folder=".",
        wanted=("kyoto-*.ja", "kyoto-*.en"),
        archives=(Archive("http://www.phontron.com/kftt/download/kftt-data-1.0.tar.gz"),),
    )


def _wmt(name: str) -> ArchivedCorpus:
    recipe = RECIPES[name]
    return ArchivedCorpus(
        name=name,
        title=f"WMT 20{recipe.folder[-2:]}, {recipe.other} and English",
        licence=_WMT,
        citation=f"Bojar et al. (20{recipe.folder[-2:]}), Findings of the conference on MT",
        folder=recipe.folder,
        wanted=recipe.names,
        archives=_WMT_ARCHIVES[name],
    )
