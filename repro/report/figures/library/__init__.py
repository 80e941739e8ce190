"""Figures that show the library itself and are computed without any run.

Modules import torch inside functions: a report whose figures exist does not need it.
"""
