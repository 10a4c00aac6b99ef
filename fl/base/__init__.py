"""What all algorithms share: arrays, errors, fields of settings, records and results of trials."""
