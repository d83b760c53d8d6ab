"""Lets jax and torch compute in one thread. Import it before them: they read the number of threads when imported.

On a shared machine, waiting threads would count as processor time.
"""

import os

os.environ |= {"OMP_NUM_THREADS": "1", "NPROC": "1", "PJRT_NPROC": "1"}
# Not only the size of the pool: matrix products have threads of their own.
os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} --xla_cpu_multi_thread_eigen=false"
