"""Figures that show the library itself: computed anew, no run behind them."""
