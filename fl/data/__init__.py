"""Labelled images: where they are found, how they are read and checked."""
