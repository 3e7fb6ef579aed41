"""CRF parameters tuned on fixed scores."""
