# replaces: code-loader
# caught by: check-loader
# says: in this order


def loader(data: Dataset, config: Config, first: int, last: int, device: torch.device) -> DataLoader:
    """The batches of steps first … last - 1, read by config.workers processes, pinned for CUDA; no global stream moves."""
    return DataLoader(
        data,
        sampler=torch.utils.data.SubsetRandomSampler(sum((indices(len(data), config.batch, config.seed, s) for s in range(first, last)), []), generator=torch.Generator()),
        batch_size=config.batch,
        num_workers=config.workers,
        pin_memory=device.type == "cuda",
        generator=torch.Generator().manual_seed(config.seed),
    )
