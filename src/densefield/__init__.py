"""Fully connected conditional random fields."""
