"""Codecs: numbers to bits and back. `fl.schemes.codecs.codec.codecs` finds the classes of every module here."""
