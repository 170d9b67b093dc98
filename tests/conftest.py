"""Two test processes with two BLAS threads each would fight for two cores; NumPy reads this at its first import."""

import os

for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")
