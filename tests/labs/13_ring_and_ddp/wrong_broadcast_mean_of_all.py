# replaces: code-broadcast
# caught by: check-broadcast
# says: rank 0's


def broadcast(link, tensors: list[Tensor]) -> None:
    with torch.no_grad():
        for tensor in tensors:
            if link.world > 1:
                mean = torch.stack(around(link, tensor.detach().double())).mean(0)
                tensor.copy_(mean)
                continue
            if link.rank > 0:
                tensor.copy_(link.receive(like=tensor))
            if link.rank < link.world - 1:
                link.send(tensor)
