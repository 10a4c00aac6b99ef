"""Size and memory of one trial of federated averaging, and the airtime of an upload."""
