# replaces: code-windows


class Windows(Dataset):
    """All windows as one view of the text."""

    def __init__(self, tokens, context, stride):
        if not context < tokens.numel():
            raise ValueError(f"no window of context {context} in {tokens.numel()} tokens")
        self.rows = tokens.to(torch.int64).unfold(0, context + 1, stride)

    def __len__(self):
        return self.rows.shape[0]

    def __getitem__(self, i):
        if i < 0:
            raise IndexError(i)
        row = self.rows[i]
        return row.narrow(0, 0, len(row) - 1).clone(), row.narrow(0, 1, len(row) - 1).clone()
