"""A kernel in a fork of a Python that has imported torch: as a program, `ipykernel_launcher` that ends with that Python."""

import atexit
import os
import sys

ADDRESS = "COURSE_KERNELS"  # the variable with the address of the server that forks them
# By nearly every kernel beside torch; papermill by the engine that runs it.
IMPORTED = ("matplotlib.pyplot", "ipykernel.kernelapp", "ipykernel.ipkernel", "papermill")
INLINE = {"MPLBACKEND": "module://matplotlib_inline.backend_inline"}  # where a kernel's figures go

if __name__ == "__main__":
    from ipykernel.kernelapp import IPKernelApp, launch_new_instance

    sys.argv.append(f"--IPKernelApp.parent_handle={os.getppid()}")
    launch_new_instance()
    # Its sockets end with it. Closing them may never end: it joins a thread that may wait for one it has stopped before.
    atexit.unregister(IPKernelApp.instance().close)
