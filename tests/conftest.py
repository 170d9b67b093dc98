"""Settings of all tests: one BLAS thread, and no deadlines.

Two test processes with two BLAS threads each would fight for two cores; NumPy reads the variables at its first import.
Timings live in ``benchmarks/``: on a loaded machine a deadline says nothing about the code.
"""

import os

from hypothesis import settings

for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

settings.register_profile("dechbo", deadline=None)
settings.load_profile("dechbo")
