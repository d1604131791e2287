# replaces: code-loader


class Steps:
    def __init__(self, examples, config, first, last):
        self.examples, self.config, self.steps = examples, config, range(first, last)

    def __len__(self):
        return len(self.steps)

    def __iter__(self):
        for step in self.steps:
            yield indices(self.examples, self.config.batch, self.config.seed, step)


def loader(data, config, first, last, device):
    own = torch.Generator()
    own.manual_seed(17)
    more = {"prefetch_factor": 4, "multiprocessing_context": "fork"} if config.workers else {}
    return DataLoader(
        data,
        batch_sampler=Steps(len(data), config, first, last),
        num_workers=config.workers,
        pin_memory=torch.device(device).type == "cuda",
        generator=own,
        **more,
    )
