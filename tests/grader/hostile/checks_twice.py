# earns: 2
# honest: strides
# %% again
expect_equal(ask("contiguous_strides((2, 3))"), (3, 1), next_step="")
# %% check-strides-2
expect_equal(ask("contiguous_strides((2, 3))"), (3, 1), next_step="")
