# earns: 2
# honest: strides
# shows: check-strides-2: RuntimeError: twice
# %% again
def contiguous_strides(shape): return torch.empty(shape).stride()
expect_equal(ask("contiguous_strides((2, 3))"), (3, 1), next_step="")
# %% check-strides-2
expect_equal(ask("contiguous_strides((2, 3))"), (3, 1), next_step="")
raise RuntimeError("twice")
