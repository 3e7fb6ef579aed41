"""Synthetic scenes: images with exact labels."""
