"""Codecs: numbers to bits and back. `fl.config.codec.codecs` finds the classes of every module here."""
