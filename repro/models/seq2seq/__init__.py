"""LSTM sequence-to-sequence model with attention and input feeding."""
