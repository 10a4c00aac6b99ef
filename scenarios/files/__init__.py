"""Plain files of a run folder: names, lock, log, heartbeat, provenance."""
