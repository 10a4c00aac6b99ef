"""Power policies."""
