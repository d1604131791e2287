# replaces: code-watch


class Notes:
    def __init__(self):
        self.graphs = []

    def __call__(self, module, inputs):
        names = []
        for node in module.graph.nodes:
            if node.op in ("call_function", "call_method", "call_module"):
                names.append(node.target if isinstance(node.target, str) else node.target.__name__)
        self.graphs.append(names)
        return module


def watch(function, calls, **settings):
    torch._dynamo.reset()
    notes, counts = Notes(), []
    compiled = torch.compile(function, backend=notes, **settings)
    for arguments in calls:
        compiled(*arguments)
        counts += [len(notes.graphs)]
    return notes.graphs, counts
