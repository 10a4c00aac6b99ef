"""Codecs: numbers to bits and back. Every module here is one codec, which `fl.config.codec.codecs` finds."""
