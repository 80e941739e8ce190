"""Dependency trees: CoNLL-U files, treebanks, and arcs as numbers."""
