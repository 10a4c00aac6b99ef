"""Run folders of Flower apps over the radio."""
