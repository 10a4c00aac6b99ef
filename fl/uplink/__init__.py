"""The way of an update to the server: codec, privacy mechanism, radio, sender indices."""
