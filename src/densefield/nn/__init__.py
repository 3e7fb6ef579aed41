"""The dense CRF as torch modules."""
