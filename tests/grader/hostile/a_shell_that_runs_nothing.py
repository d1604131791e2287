# earns: 0
# shows: check-strides: .*NameError: name 'contiguous_strides' is not defined
# %% attack
kind = type(get_ipython())
class Fine:
    error_before_exec = error_in_exec = None
kind.run_cell = lambda self, *a, **k: Fine()
