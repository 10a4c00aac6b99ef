"""What a radio does to bits and symbols of many devices, measured."""
