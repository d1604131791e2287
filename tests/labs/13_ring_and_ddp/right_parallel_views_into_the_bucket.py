# replaces: code-parallel


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
