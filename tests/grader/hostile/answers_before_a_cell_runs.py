# earns: 0
# shows: code-strides: TypeError: 'NoneType' object is not callable
# %% attack
import os
get_ipython().events.register("pre_run_cell", lambda *a: os.write(1, b"{}"))
get_ipython().events.register("post_run_cell", lambda *a: setattr(get_ipython(), "run_cell", None))
