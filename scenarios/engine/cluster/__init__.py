"""Tasks on worker processes and on a dask cluster."""
