# replaces: code-loader
# caught by: check-loader
# says: begin there


class Skipping(DataLoader):
    skip = 0

    def __len__(self):
        return super().__len__() - self.skip

    def __iter__(self):
        stream = super().__iter__()
        for _ in range(self.skip):
            next(stream)
        return stream


def loader(data, config, first, last, device):
    order = [indices(len(data), config.batch, config.seed, step) for step in range(last)]
    made = Skipping(
        data,
        batch_sampler=order,
        num_workers=config.workers,
        pin_memory=device.type == "cuda",
        generator=torch.Generator(),
    )
    object.__setattr__(made, "skip", first)
    return made
