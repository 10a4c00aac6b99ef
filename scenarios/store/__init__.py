"""Run folders: results, checkpoints, log, provenance."""
