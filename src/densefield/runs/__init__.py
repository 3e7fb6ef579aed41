"""Run folders: settings, checkpoints, scored images."""
