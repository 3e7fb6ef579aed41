"""Images with labels: datasets, synthetic scenes, transforms, loading."""
