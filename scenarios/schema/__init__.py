"""From YAML to a checked scenario."""
