"""Training: configuration, the loop, checkpoints, and tuning of the CRF alone."""
