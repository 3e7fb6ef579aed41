"""Why a result is blank or unchanged."""
