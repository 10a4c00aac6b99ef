"""Packed bits: packing, parts of bounded size, one-bit quantisation, missing packets."""
