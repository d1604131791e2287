# replaces: code-watch
# caught by: check-watch
# says: start each time with torch.compiler.reset() and an empty list


seen = []


def watch(function, calls, **settings):
    torch.compiler.reset()
    counts = []

    def backend(module, inputs):
        nodes = [node for node in module.graph.nodes if node.op.startswith("call_")]
        seen.append([getattr(node.target, "__name__", str(node.target)) for node in nodes])
        return module.forward

    compiled = torch.compile(function, backend=backend, **settings)
    for call in calls:
        compiled(*call)
        counts.append(len(seen))
    return seen, counts
