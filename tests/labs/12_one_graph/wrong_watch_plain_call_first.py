# replaces: code-watch
# caught by: check-watch
# says: call the compiled function once for each call


def watch(function, calls, **settings) -> tuple[list[list[str]], list[int]]:
    """The names of the operations of each graph, and the number of graphs after each call function(*call)."""
    torch.compiler.reset()
    graphs, counts = [], []

    def backend(module, inputs):
        nodes = [node for node in module.graph.nodes if node.op.startswith("call_")]
        graphs.append([getattr(node.target, "__name__", str(node.target)) for node in nodes])
        return module.forward

    compiled = torch.compile(function, backend=backend, **settings)
    for call in calls:
        assert function(*call) is not None
        compiled(*call)
        counts.append(len(graphs))
    return graphs, counts
