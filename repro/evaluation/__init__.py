"""Metrics, scores and significance; takes predictions and knows no model."""
