# replaces: code-parallel
# caught by: check-parallel
# says: begin to count anew


def data_parallel(link, model: nn.Module, capacity: int) -> list[int]:
    """Rank 0's weights on all ranks, and from now on the mean of all ranks' gradients after each backward, by buckets.

    Returns a list to which every bucket's number is appended when it has been averaged.
    """
    log = []
    broadcast(link, [*model.parameters(), *model.buffers()])
    trained = [p for p in model.parameters() if p.requires_grad]

    def register(number: int, bucket: list[Tensor]) -> None:
        arrived = []

        def hook(p: Tensor) -> None:
            arrived.append(p)
            if len(arrived) < len(bucket):
                return
            vector = torch.cat([p.grad.flatten() for p in bucket])
            all_reduce(link, vector)
            for p, piece in zip(bucket, (vector / link.world).split([p.numel() for p in bucket]), strict=True):
                p.grad.copy_(piece.view_as(p))
            log.append(number)

        for p in bucket:
            p.register_post_accumulate_grad_hook(hook)

    for number, places in enumerate(buckets([p.numel() for p in trained], capacity)):
        register(number, [trained[place] for place in places])
    return log
