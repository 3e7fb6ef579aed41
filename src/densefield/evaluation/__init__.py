"""Judging networks and CRFs on datasets, and predicting images."""
