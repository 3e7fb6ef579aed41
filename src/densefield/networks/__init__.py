"""Networks that give a score to every label at every pixel; they know nothing of the CRF."""
