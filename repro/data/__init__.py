"""Corpora: readers, checksums and downloads, vocabularies, batches and generated demo corpora."""
