"""Figures that show the library itself: computed anew, no run behind them.

Modules import torch where values are computed: a report whose figures exist does without.
"""
