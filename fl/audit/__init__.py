"""Games with neighbouring data, played against what the server receives over the simulated link."""
