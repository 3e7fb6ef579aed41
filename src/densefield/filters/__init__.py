"""Gaussian filtering in any dimension, as a linear operator."""
