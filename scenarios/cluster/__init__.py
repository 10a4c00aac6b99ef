"""Tasks in many processes, on this machine or on a cluster, through dask.distributed."""
