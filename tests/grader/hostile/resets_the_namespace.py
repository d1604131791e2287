# earns: 0
# shows: code-swap: NameError: name 'torch' is not defined
# %% zz-attack
%reset -f
