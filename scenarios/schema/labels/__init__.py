"""Labels and units of settings, for tables, legends and messages."""
