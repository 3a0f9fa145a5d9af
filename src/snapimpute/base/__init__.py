"""Types, files, the machine and threads: what every storey may use."""
