"""Networks that devices train: by name or by the user's own function, their sizes before they are built."""
