"""Classifiers of sentence pairs: attention to the premise, and ESIM with aligned sentences."""
