"""Labelled images: where they are found, how they are read and checked."""

from fl.data.arrays import ImageData, image_facts
from fl.data.images import available_images, load_images
from fl.data.whereabouts import Whereabouts, find_data, missing_data

__all__ = [
    "ImageData",
    "Whereabouts",
    "available_images",
    "find_data",
    "image_facts",
    "load_images",
    "missing_data",
]
