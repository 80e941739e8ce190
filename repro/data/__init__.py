"""Corpora: readers, checksums and downloads, vocabularies, batches and generated demo corpora."""

from repro.config.paths import extended

__path__ += extended(__name__)
