"""What the devices do between two uploads: many devices, or many samples of one, in each compiled call."""
