"""Training: settings, the loop, checkpoints and logs."""
