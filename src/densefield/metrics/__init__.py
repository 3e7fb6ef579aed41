"""Measures of segmentations: how good, how near boundaries, how well calibrated, and how sure that is."""
