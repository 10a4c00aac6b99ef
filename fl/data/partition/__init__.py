"""The samples that each device holds, and the devices that take part in a round."""
