# replaces: code-loader
# caught by: check-loader
# says: the first of


def loader(data: Dataset, config: Config, first: int, last: int, device: torch.device) -> DataLoader:
    """The batches of steps first … last - 1, read by config.workers processes, pinned for CUDA; no global stream moves."""
    return DataLoader(
        data,
        batch_sampler=[indices(len(data), config.batch, config.seed, step - first) for step in range(first, last)],
        num_workers=config.workers,
        pin_memory=device.type == "cuda",
        generator=torch.Generator().manual_seed(config.seed),
    )
