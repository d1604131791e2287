"""Lab 14 · A ring, and data parallelism from scratch: what students write. See variants.py."""

from variants import variants_of

LAB = variants_of("14_ring_and_ddp")


# Task 1 · Once around

wrong, right = LAB.task("around")

wrong(
    "all receive first",
    (
        "place = (link.rank - step) % link.world",
        """
        place = (link.rank - step) % link.world
        came = link.receive(like=own)
        """,
    ),
    ("everyones[place - 1] = link.receive(like=own)", "everyones[place - 1] = came"),
    says=["send first, then receive", "waits for a message that never comes"],
)
wrong("always its own", ("everyones[place]", "own"), says=["it was passed on"])
wrong(
    "in order of arrival",
    """
    def around(link, own: Tensor) -> list[Tensor]:
        everyones, last = [own], own
        for step in range(link.world - 1):
            link.send(last)
            last = link.receive(like=own)
            everyones.append(last)
        return everyones
    """,
    says=["by hand"],
)
wrong("one step too few", ("link.world - 1", "link.world - 2"), says=["by hand"])
wrong("one step too many", ("link.world - 1", "link.world"), says=["K − 1 messages"])
wrong(
    "overwrites its own",
    (
        "return everyones",
        """
        mine = own.clone()
        if link.world > 1:
            own.copy_(everyones[link.rank - 1])
        everyones[link.rank] = mine
        return everyones
        """,
    ),
    says=["own is only read"],
)
wrong(
    "sends the rest unread",
    (
        "return everyones",
        """
        if link.world > 1:
            link.send(own)
        return everyones
        """,
    ),
    says=["messages left unread"],
)
wrong(
    "the wrong way round",
    ("link.rank - step", "link.rank + step"),
    ("place - 1", "(place + 1) % link.world"),
    says=["by hand"],
)
right(
    "shifted by a deque",
    """
    from collections import deque


    def around(link, own):
        came = deque([own])
        for _ in range(1, link.world):
            link.send(came[0])
            came.appendleft(link.receive(own))
        came.rotate(link.rank + 1)
        return list(came)
    """,
)

# Task 2 · The first half of the ring

wrong, right = LAB.task("scatter")

wrong("adds where it sends", ("(0, 1)", "(0, 0)"), says=["by hand"])
wrong("all the same chunk", ("link.rank - step", "-step"), says=["by hand"])
wrong(
    "beside the vector",
    ("incoming += link.receive(like=incoming)", "incoming = incoming + link.receive(like=incoming)"),
    says=["by hand"],
)
wrong(
    "by summing whole vectors",
    """
    def reduce_scatter(link, vector: Tensor) -> Tensor:
        vector.copy_(torch.stack(around(link, vector.clone())).sum(0))
        chunks = vector.tensor_split(link.world)
        return chunks[(link.rank + 1) % link.world]
        for step in range(link.world - 1):
            outgoing, incoming = (chunks[(link.rank - step - shift) % link.world] for shift in (0, 1))
            link.send(outgoing)
            incoming += link.receive(like=incoming)
        return chunks[(link.rank + 1) % link.world]
    """,
    says=["each is one chunk"],
)
wrong(
    "chunks by split",
    ("vector.tensor_split(link.world)", "vector.split(-(-len(vector) // link.world))"),
    says=["tensor_split"],
)
wrong("one step too many", ("link.world - 1", "link.world"), says=["modulo K"])
wrong(
    "receives first",
    (
        """
        link.send(outgoing)
        incoming += link.receive(like=incoming)
        """,
        """
        incoming += link.receive(like=incoming)
        link.send(outgoing)
        """,
    ),
    says=["never comes", "send first"],
)
wrong(
    "replaces",
    ("incoming += link.receive(like=incoming)", "incoming.copy_(link.receive(like=incoming))"),
    says=["adds its own"],
)
wrong(
    "returns a copy",
    ("chunks[(link.rank + 1) % link.world]", "chunks[(link.rank + 1) % link.world].clone()"),
    says=["they are views of the vector"],
)
wrong("returns its own chunk", ("(link.rank + 1) % link.world", "link.rank"), says=["by hand"])
right(
    "with views by hand",
    """
    def bounds(length, world, chunk):
        small, larger = divmod(length, world)
        start = chunk * small + min(chunk, larger)
        return slice(start, start + small + (chunk < larger))


    def reduce_scatter(link, vector):
        chunk = link.rank
        for _ in range(1, link.world):
            link.send(vector[bounds(len(vector), link.world, chunk)])
            chunk = chunk - 1 if chunk > 0 else link.world - 1
            part = vector[bounds(len(vector), link.world, chunk)]
            torch.add(link.receive(part), part, out=part)
        return vector[bounds(len(vector), link.world, chunk)]
    """,
)
wrong(
    "beside the vector but for the last",
    ("chunks = vector.tensor_split(link.world)", "chunks = vector.clone().tensor_split(link.world)"),
    (
        "return chunks[(link.rank + 1) % link.world]",
        """
        last = (link.rank + 1) % link.world
        place = vector.tensor_split(link.world)[last]
        place.copy_(chunks[last])
        return place
        """,
    ),
    says=["the other chunks of the vector hold sums of some"],
)


# Task 3 · The ring

wrong, right = LAB.task("reduce")

wrong(
    "adds in the second half",
    ("incoming.copy_(link.receive(like=incoming))", "incoming += link.receive(like=incoming)"),
    says=["copy it and do not add"],
)
wrong(
    "averages",
    ("reduce_scatter(link, vector)", "reduce_scatter(link, vector)\nvector //= link.world"),
    says=["by hand"],
)
wrong("begins with its own chunk", ("link.rank + shift - step", "link.rank + shift - step - 1"), says=["by hand"])
wrong(
    "beside the vector",
    ("incoming.copy_(link.receive(like=incoming))", "incoming = link.receive(like=incoming)"),
    says=["in place"],
)
wrong(
    "each in its own order",
    (
        "reduce_scatter(link, vector)",
        """
        pieces = around(link, vector.clone())
        total = pieces[link.rank]
        for shift in range(1, link.world):
            total = total + pieces[(link.rank + shift) % link.world]
        vector.copy_(total)
        return
        """,
    ),
    says=["of a chunk each"],
)
wrong("first half only", ("link.world - 1", "0"), says=["second half"])
wrong("one step too many", ("link.world - 1", "link.world"), says=["K − 1 while copying"])
wrong(
    "returns the sum instead",
    ("reduce_scatter(link, vector)", "vector = vector.clone()\nreduce_scatter(link, vector)"),
    says=["in place"],
)
wrong(
    "whole vectors around",
    (
        "reduce_scatter(link, vector)",
        """
        vector.copy_(torch.stack(around(link, vector.clone())).sum(0))
        return
        """,
    ),
    says=["of a chunk each"],
)
right(
    "in one loop",
    """
    def all_reduce(link, vector):
        K = link.world
        chunks = list(torch.tensor_split(vector, K))
        for step in range(2 * K - 2):
            link.send(chunks[link.rank - step % K])
            mine = chunks[(link.rank - step - 1) % K]
            mine *= step < K - 1
            mine += link.receive(torch.empty_like(mine))
    """,
)

wrong(
    "returns the vector",
    """
    def all_reduce(link, vector: Tensor) -> Tensor:
        reduce_scatter(link, vector)
        chunks = vector.tensor_split(link.world)
        for step in range(link.world - 1):
            link.send(chunks[(link.rank + 1 - step) % link.world])
            chunks[(link.rank - step) % link.world].copy_(link.receive(like=chunks[(link.rank - step) % link.world]))
        return vector
    """,
    says=["returns nothing"],
)

# Task 4 · From rank 0 to all

wrong, right = LAB.task("broadcast")

wrong(
    "everybody sends its own",
    """
    def broadcast(link, tensors: list[Tensor]) -> None:
        with torch.no_grad():
            for tensor in tensors:
                if link.rank < link.world - 1:
                    link.send(tensor)
                if link.rank > 0:
                    tensor.copy_(link.receive(like=tensor))
    """,
    says=["pass on what you received"],
)
wrong("freezes", ("tensor.copy_", "tensor.requires_grad_(False).copy_"), says=["leaf with gradients"])
wrong(
    "last one sends too",
    ("link.rank < link.world - 1", "link.world > 1"),
    says=["messages left unread", "the last rank receives only"],
)
wrong(
    "leaves out whole numbers",
    ("for tensor in tensors:", "for tensor in (t for t in tensors if t.is_floating_point()):"),
    says=["one message for each tensor"],
)
wrong(
    "mean of all",
    (
        "if link.rank > 0:",
        """
        if link.world > 1:
            mean = torch.stack(around(link, tensor.detach().double())).mean(0)
            tensor.copy_(mean)
            continue
        if link.rank > 0:
        """,
    ),
    says=["rank 0's"],
)
wrong(
    "other tensors",
    ("tensor.copy_(link.receive(like=tensor))", "tensor = link.receive(like=tensor)"),
    says=["in place"],
)
wrong("rank 0 receives too", ("link.rank > 0", "link.world > 1"), says=["never comes", "rank 0 sends only"])
wrong("stops at rank 1", ("link.rank < link.world - 1", "link.rank == 0 and link.world > 1"), says=["never comes"])
wrong("with gradients", ("with torch.no_grad():", "if True:"), says=["inside torch.no_grad()"])
right(
    "rank by rank",
    """
    @torch.no_grad()
    def broadcast(link, tensors):
        first, last = link.rank == 0, link.rank + 1 == link.world
        if not first:
            for tensor in tensors:
                tensor.set_(tensor.clone()) if False else tensor.data.copy_(link.receive(tensor))
                if not last:
                    link.send(tensor.data)
        elif not last:
            for tensor in tensors:
                link.send(tensor)
    """,
)
wrong(
    "all as float32",
    ("link.receive(like=tensor)", "link.receive(like=tensor.float())"),
    ("link.send(tensor)", "link.send(tensor.float())"),
    says=["in its own dtype"],
)


# Task 5 · Buckets

wrong, right = LAB.task("buckets")

wrong("an empty one at the end", ("[places] * bool(places)", "[places]"), says=["by hand"])
wrong("any capacity", ("capacity < 1", "False"), says=["ValueError"])
wrong(
    "closes before it is full",
    (
        "sum(sizes[place] for place in places) >= capacity",
        "sum(sizes[place] for place in places) + (sizes[place - 1] if place else 0) > capacity",
    ),
    says=["by hand"],
)
wrong("counts parameters", ("sum(sizes[place] for place in places)", "len(places)"), says=["by hand"])
wrong("from the first", ("reversed(range(len(sizes)))", "range(len(sizes))"), says=["by hand"])
wrong("leaves out the rest", ("full + [places] * bool(places)", "full"), says=["is a bucket all the same"])
wrong(
    "more than the capacity",
    ("sum(sizes[place] for place in places) >= capacity", "sum(sizes[place] for place in places) > capacity"),
    says=["exactly the capacity"],
)
wrong(
    "sizes for places",
    (
        "full + [places] * bool(places)",
        "[[sizes[place] for place in group] for group in full + [places] * bool(places)]",
    ),
    says=["by hand"],
)
right(
    "recursive",
    """
    def buckets(sizes, capacity):
        if capacity < 1:
            raise ValueError(f"no room in a bucket of {capacity}")
        if not sizes:
            return []
        places, held = [], 0
        while sizes and held < capacity:
            held += sizes[-1]
            places.append(len(sizes) - 1)
            sizes = sizes[:-1]
        return [places, *buckets(sizes, capacity)]
    """,
)
wrong("only 0 is below 1", ("capacity < 1", "capacity == 0"), says=["ValueError", "if it is below 1"])


# Task 6 · A data-parallel model

wrong, right = LAB.task("parallel")

wrong(
    "after the backward",
    (
        "for number, places in enumerate(buckets([p.numel() for p in trained], capacity)):",
        """
        if True:
            whole = [
                [trained[place] for place in places] for places in buckets([p.numel() for p in trained], capacity)
            ]
            arrived = []

            def late(p):
                arrived.append(p)
                if len(arrived) < len(trained):
                    return
                arrived.clear()
                for number, bucket in enumerate(whole):
                    vector = torch.cat([p.grad.flatten() for p in bucket])
                    all_reduce(link, vector)
                    for p, piece in zip(bucket, (vector / link.world).split([p.numel() for p in bucket])):
                        p.grad.copy_(piece.view_as(p))
                    log.append(number)

            for p in trained:
                p.register_post_accumulate_grad_hook(late)
            return log
        for number, places in enumerate(buckets([p.numel() for p in trained], capacity)):
        """,
    ),
    says=["inside the hook"],
)
wrong(
    "before it is accumulated",
    (
        "p.register_post_accumulate_grad_hook(hook)",
        "p.register_hook(lambda g, p=p: hook(p) if p.grad is not None else arrived.append(p))",
    ),
    says=["put back into p.grad"],
)
wrong(
    "buffers stay apart",
    ("[*model.parameters(), *model.buffers()]", "[*model.parameters()]"),
    says=["Parameters and buffers"],
)
wrong("capacity in parameters", ("[p.numel() for p in trained]", "[p.shape[0] for p in trained]"), says=["by numel()"])
wrong(
    "each by itself",
    ("buckets([p.numel() for p in trained], capacity)", "buckets([p.numel() for p in trained], 1)"),
    says=["buckets are those of buckets"],
)
wrong("first backward only", ("arrived.clear()", ""), says=["AttributeError", "begin to count anew"])
wrong(
    "frozen fill buckets",
    ("[p for p in model.parameters() if p.requires_grad]", "list(model.parameters())"),
    ("for p in bucket:", "for p in (p for p in bucket if p.requires_grad):"),
    says=["AttributeError", "leave frozen ones out"],
)
wrong("logs the places", ("log.append(number)", "log.append(len(bucket))"), says=["bucket 0 in the log"])
wrong(
    "not put back", ("p.grad.copy_(piece.view_as(p))", "p.averaged = piece.view_as(p)"), says=["put back into p.grad"]
)
wrong(
    "one bucket for all",
    ("buckets([p.numel() for p in trained], capacity)", "buckets([p.numel() for p in trained], 10**9)"),
    says=["buckets are those of buckets"],
)
wrong(
    "one count for all buckets",
    ("log = []", "log, shared = [], []"),
    ("arrived = []", "arrived = shared"),
    says=["AttributeError", "counts its own Parameters"],
)
wrong(
    "one message for each parameter",
    (
        """
        vector = torch.cat([p.grad.flatten() for p in bucket])
        all_reduce(link, vector)
        for p, piece in zip(bucket, (vector / link.world).split([p.numel() for p in bucket]), strict=True):
            p.grad.copy_(piece.view_as(p))
        """,
        """
        for p in bucket:
            vector = p.grad.flatten().clone()
            all_reduce(link, vector)
            p.grad.copy_(vector.view_as(p) / link.world)
        """,
    ),
    says=["of all its gradients in one vector"],
)
wrong(
    "put back in the order of the model",
    (
        "zip(bucket, (vector / link.world).split([p.numel() for p in bucket]), strict=True)",
        "zip(bucket[::-1], (vector / link.world).split([p.numel() for p in bucket[::-1]]))",
    ),
    says=["its own Parameter"],
)
wrong("sums", ("vector / link.world", "vector"), says=["divided by 2"])
wrong(
    "trained only broadcast",
    (
        "[*model.parameters(), *model.buffers()]",
        "[p for p in model.parameters() if p.requires_grad] + list(model.buffers())",
    ),
    says=["frozen Parameters too"],
)
wrong("without broadcast", ("broadcast(link, [*model.parameters(), *model.buffers()])", ""), says=["rank 0's weight"])
right(
    "views into the bucket",
    """
    def data_parallel(link, model, capacity):
        everything = list(model.parameters()) + list(model.buffers())
        broadcast(link, everything)
        trained = [p for p in model.parameters() if p.requires_grad]
        log, home, missing, groups = [], {}, {}, {}
        for number, places in enumerate(buckets([p.numel() for p in trained], capacity)):
            groups[number] = places
            missing[number] = set(places)
            for place in places:
                home[place] = number

        def ready(place):
            number = home[place]
            missing[number].discard(place)
            if missing[number]:
                return
            missing[number] = set(groups[number])
            flat = torch.nn.utils.parameters_to_vector([trained[i].grad for i in groups[number]]).clone()
            flat /= link.world
            all_reduce(link, flat)
            start = 0
            for i in groups[number]:
                end = start + trained[i].numel()
                trained[i].grad = flat[start:end].reshape(trained[i].shape)
                start = end
            log.append(number)

        for place, p in enumerate(trained):
            p.register_post_accumulate_grad_hook(lambda _, place=place: ready(place))
        return log
    """,
)
wrong(
    "fresh gradients only",
    ("torch.cat([p.grad.flatten() for p in bucket])", "torch.cat([fresh[id(p)].flatten() for p in bucket])"),
    ("arrived = []", "arrived, fresh = [], {}"),
    (
        "p.register_post_accumulate_grad_hook(hook)",
        """
        p.register_hook(lambda g, p=p: fresh.update({id(p): g}))
        p.register_post_accumulate_grad_hook(hook)
        """,
    ),
    says=["average what p.grad holds"],
)


# Task 7 · The same run on any number of ranks

wrong, right = LAB.task("train")

wrong(
    "deals the data in its order",
    ("order.split", "torch.arange(len(order), device=order.device).split"),
    says=["indices into x and y"],
)
wrong("divides by the full batch", ("y[rows].numel()", "(batch * y.shape[1])"), says=["a last batch of one example"])
wrong(
    "drops the last batch",
    (
        "share = rows[link.rank :: link.world]",
        """
        if len(rows) < batch:
            break
        share = rows[link.rank :: link.world]
        """,
    ),
    says=["one example"],
)
wrong("examples only", ("y[rows].numel()", "len(rows)"), says=["examples and outputs"])
wrong(
    "forgets the ranks",
    ("(model(x[share]) - y[share]).square().sum() * link.world", "(model(x[share]) - y[share]).square().sum()"),
    says=["times K"],
)
wrong("gradients pile up", ("p.grad = None", ""), says=["gradients away after each step"])
wrong("its own loss", ("all_reduce(link, total)", "total *= link.world"), says=["the whole batch's"])
wrong(
    "loss after the step",
    (
        """
        total = loss.detach().view(1).clone()
        all_reduce(link, total)
        losses.append(total.item() / link.world)
        """,
        "",
    ),
    (
        "return losses",
        """
                loss = (model(x[share]) - y[share]).square().sum() * link.world / y[rows].numel()
            total = loss.detach().view(1).clone()
            all_reduce(link, total)
            losses.append(total.item() / link.world)
        return losses
        """,
    ),
    says=["before the step"],
)
wrong(
    "mean of the share",
    (
        "(model(x[share]) - y[share]).square().sum() * link.world / y[rows].numel()",
        "(model(x[share]) - y[share]).square().mean()",
    ),
    says=["no example weighs more"],
)
wrong("not made parallel", ("data_parallel(link, model, capacity)", ""), says=["rank 0's weights at the start"])
wrong(
    "parallel in every batch",
    ("data_parallel(link, model, capacity)", ""),
    (
        "share = rows[link.rank :: link.world]",
        """
        data_parallel(link, model, capacity)
        share = rows[link.rank :: link.world]
        """,
    ),
    says=["once, before the first batch"],
)
wrong("returns tensors", ("total.item()", "total[0]"), says=["plain numbers"])
wrong(
    "shares in one piece",
    ("rows[link.rank :: link.world]", "rows.tensor_split(link.world)[link.rank]"),
    says=["rows[rank::K]"],
)
wrong(
    "skips an empty share",
    (
        "share = rows[link.rank :: link.world]",
        """
        share = rows[link.rank :: link.world]
        if not len(share):
            continue
        """,
    ),
    says=["also with an empty share"],
)
wrong("sum of the losses", ("total.item() / link.world", "total.item()"), says=["the mean over the ranks"])
wrong(
    "whole batch everywhere",
    ("rows[link.rank :: link.world]", "rows"),
    ("(model(x[share]) - y[share]).square().sum() * link.world", "(model(x[share]) - y[share]).square().sum()"),
    says=["its own share"],
)
wrong("wrong way up", ("p -= lr * p.grad", "p += lr * p.grad"), says=["noted before the step"])
right(
    "share by blocks of weights",
    """
    def train(link, model, x, y, order, batch, lr, capacity):
        data_parallel(link, model, capacity)
        optimizer = torch.optim.SGD(model.parameters(), lr=lr)
        losses = []
        for start in range(0, len(order), batch):
            rows = order[start : start + batch]
            mine = torch.arange(len(rows), device=rows.device) % link.world == link.rank
            errors = F.mse_loss(model(x[rows[mine]]), y[rows[mine]], reduction="none").flatten()
            loss = torch.cat([errors, errors.new_zeros(1)]).sum() / (len(rows) * y.shape[1])
            whole = sum(each.item() for each in around(link, loss.detach()))
            losses.append(whole)
            optimizer.zero_grad()
            (link.world * loss).backward()
            optimizer.step()
        return losses
    """,
)
wrong("a rate of its own", ("lr * p.grad", "0.1 * p.grad"), says=["by lr times the gradient"])
wrong(
    "a capacity of its own",
    ("data_parallel(link, model, capacity)", "data_parallel(link, model, 30)"),
    says=["hand `capacity` on"],
)
wrong(
    "stumbles over the frozen",
    (
        """
        if p.grad is not None:
            p -= lr * p.grad
            p.grad = None
        """,
        """
        p -= lr * p.grad
        p.grad = None
        """,
    ),
    says=["a frozen Parameter has no gradient"],
)

# Task 8 · Are we still the same?

wrong, right = LAB.task("drifted")

wrong(
    "adds the bytes up",
    ("tensor.reshape(-1).view(torch.uint8)", "tensor.reshape(-1).view(torch.uint8).long().sum()"),
    says=["compare the bytes themselves"],
)
wrong(
    "compares the means",
    ("tensor.reshape(-1).view(torch.uint8)", "tensor"),
    ("torch.equal(first, other)", "(first.double().mean() - other.double().mean()).abs() < 1e-4"),
    says=["differs by one bit"],
)
wrong("compares values", ("tensor.reshape(-1).view(torch.uint8)", "tensor"), says=["view(torch.uint8)"])
wrong(
    "compares with its own by allclose",
    ("tensor.reshape(-1).view(torch.uint8)", "tensor"),
    ("torch.equal", "torch.allclose"),
    says=["one bit"],
)
wrong(
    "left neighbour only",
    """
    def drifted(link, model: nn.Module) -> list[str]:
        names = []
        for name, tensor in model.state_dict().items():
            everyones = around(link, tensor)
            if not torch.equal(everyones[link.rank], everyones[link.rank - 1]):
                names.append(name)
        return names
    """,
    says=["every rank says so"],
)
wrong(
    "mends what it finds",
    ("tensor.reshape(-1).view(torch.uint8)", "tensor"),
    ("names.append(name)", "names.append(name)\ntensor.copy_(first)"),
    says=["only look"],
)
wrong(
    "only rank 0 says so",
    ("tensor.reshape(-1).view(torch.uint8)", "tensor"),
    ("return names", "return names if link.rank == 0 else []"),
    says=["every rank says so"],
)
wrong(
    "parameters only",
    ("model.state_dict().items", "model.named_parameters"),
    ("tensor.reshape(-1).view(torch.uint8)", "tensor"),
    says=["buffers are in the state dict"],
)
wrong(
    "stops at the first",
    ("tensor.reshape(-1).view(torch.uint8)", "tensor"),
    ("names.append(name)", "names.append(name)\nbreak"),
    says=["two names"],
)
right(
    "by bytes",
    """
    def drifted(link, model):
        found = []
        for name, tensor in model.state_dict().items():
            raw = tensor.detach().cpu().reshape(-1).contiguous().view(torch.uint8)
            if len({bytes(each.cpu().tolist()) for each in around(link, raw)}) > 1:
                found.append(name)
        return found
    """,
)
wrong(
    "all NaN are one",
    ("tensor.reshape(-1).view(torch.uint8)", "tensor"),
    (
        "torch.equal(first, other)",
        "bool(((first == other) & (first.signbit() == other.signbit()) | first.isnan() & other.isnan()).all())",
    ),
    says=["ask nobody about NaN"],
)
