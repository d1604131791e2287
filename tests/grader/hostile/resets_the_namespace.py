# earns: 0
# %% zz-attack
%reset -f
