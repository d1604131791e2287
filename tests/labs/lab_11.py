"""Lab 11 · Cure a sick network, and profile one step: what students write. See variants.py."""

from variants import variants_of

LAB = variants_of("11_cure_a_sick_network")


# Task 1 · The triage

wrong, right = LAB.task("triage")

wrong(
    "backward after zero grad",
    """
    def triage(model, loss_of):
        model.zero_grad()
        loss = loss_of(model)
        if loss.requires_grad:
            loss.backward()
        kinds = {}
        for name, p in model.named_parameters():
            if not p.requires_grad:
                kinds[name] = "frozen"
            elif p.grad is None:
                kinds[name] = "none"
            elif not p.grad.isfinite().all():
                kinds[name] = "broken"
            else:
                kinds[name] = "alive" if p.grad.any() else "zero"
        return kinds
    """,
    says=["p.grad is to stay as it was"],
)
wrong(
    "backward onto the old",
    """
    def triage(model, loss_of):
        loss_of(model).backward()
        kinds = {}
        for name, p in model.named_parameters():
            if not p.requires_grad:
                kinds[name] = "frozen"
            elif p.grad is None:
                kinds[name] = "none"
            elif not p.grad.isfinite().all():
                kinds[name] = "broken"
            else:
                kinds[name] = "alive" if p.grad.any() else "zero"
        return kinds
    """,
    says=["take fresh ones"],
)
wrong(
    "stumbles over a lost graph",
    """
    def triage(model, loss_of):
        loss = loss_of(model)
        asking = [p for p in model.parameters() if p.requires_grad]
        fresh = iter(torch.autograd.grad(loss, asking, allow_unused=True))
        kinds = {}
        for name, p in model.named_parameters():
            g = next(fresh) if p.requires_grad else None
            if not p.requires_grad:
                kinds[name] = "frozen"
            elif g is None:
                kinds[name] = "none"
            else:
                kinds[name] = "broken" if not g.isfinite().all() else "alive" if g.any() else "zero"
        return kinds
    """,
    says=["a loss without a graph is a finding, no error"],
)
right(
    "backward on a copy",
    """
    def triage(model, loss_of):
        kept = [(p, p.grad) for p in model.parameters()]
        kinds = {}
        try:
            for p, _ in kept:
                p.grad = None
            loss = loss_of(model)
            if loss.grad_fn is not None:
                loss.backward()
            for name, p in model.named_parameters():
                entries = [] if p.grad is None else p.grad.flatten().tolist()
                if not p.requires_grad:
                    kinds[name] = "frozen"
                elif not entries:
                    kinds[name] = "none"
                elif not all(math.isfinite(each) for each in entries):
                    kinds[name] = "broken"
                else:
                    kinds[name] = "alive" if any(each != 0 for each in entries) else "zero"
        finally:
            for p, grad in kept:
                p.grad = grad
        return kinds
    """,
)

another_way = """
def triage(model, loss_of):
    loss = loss_of(model)
    asking = {name: p for name, p in model.named_parameters() if p.requires_grad}
    gradients = dict.fromkeys(asking)
    if asking and loss.requires_grad:
        gradients = dict(zip(asking, torch.autograd.grad(loss, list(asking.values()), allow_unused=True)))
    kinds = {}
    for name, p in model.named_parameters():
        g = gradients.get(name)
        if not p.requires_grad:
            kinds[name] = "frozen"
        elif g is None:
            kinds[name] = "none"
        elif not g.isfinite().all():
            kinds[name] = "broken"
        else:
            kinds[name] = "alive" if g.any() else "zero"
    return kinds
"""

wrong(
    "alive if all",
    ('"alive" if g.any() else "zero"', '"alive" if g.all() else "zero"'),
    of=another_way,
    says=["g.all() asks whether none is"],
)
wrong(
    "broken if all",
    ("not g.isfinite().all()", "g.isnan().all()"),
    of=another_way,
    says=["one entry that is NaN is enough"],
)
wrong(
    "by the norm",
    ("g.isfinite().all", "g.norm().isfinite"),
    ('"alive" if g.any() else "zero"', '"alive" if g.norm() else "zero"'),
    of=another_way,
    says=["Look at the entries"],
)
wrong(
    "missing counts as zero", ('kinds[name] = "none"', 'kinds[name] = "zero"'), of=another_way, says=["c takes no part"]
)
wrong("nan only", ("not g.isfinite().all()", "g.isnan().any()"), of=another_way, says=["infinite is broken too"])
wrong(
    "zero by the norm",
    ('"alive" if g.any() else "zero"', '"alive" if g.norm() > 0 else "zero"'),
    of=another_way,
    says=["Look at the entries"],
)
wrong(
    "zero by the sum",
    ('"alive" if g.any() else "zero"', '"alive" if g.sum() else "zero"'),
    of=another_way,
    says=["g.any() looks at the entries"],
)
wrong(
    "asks only the loss",
    ("if asking and loss.requires_grad:", "if loss.requires_grad:"),
    says=["whether there is anybody to ask"],
)
wrong(
    "switches the mode",
    ("loss = loss_of(model)", "model.eval()\nloss = loss_of(model)"),
    says=["neither eval() nor train()"],
)

# Task 2 · Vital signs

wrong, right = LAB.task("signs")

wrong(
    "forward skips",
    """
    def vital_signs(model, x):
        signs, handles = [], []

        def listen(name):
            def hook(module, inputs, output):
                given = inputs[0]
                if not isinstance(given, Tensor) or not isinstance(output, Tensor):
                    return
                signs.append(
                    dict(
                        name=name,
                        rms_in=given.double().square().mean().sqrt().item(),
                        rms_out=output.double().square().mean().sqrt().item(),
                        largest=output.max().item(),
                        sound_in=bool(given.isfinite().all()),
                        sound_out=bool(output.isfinite().all()),
                    )
                )

            return hook

        for name, module in model.named_modules():
            if not list(module.children()):
                handles.append(module.register_forward_hook(listen(name)))
        try:
            with torch.no_grad():
                model(x)
        finally:
            for handle in handles:
                handle.remove()
        return signs


    _whole = vital_signs


    def vital_signs(model, x):
        return [sign for sign in _whole(model, x) if "." not in sign["name"]]
    """,
    says=["in the order of the calls"],
)
wrong(
    "late binding",
    """
    def vital_signs(model, x):
        signs, handles = [], []
        for name, module in model.named_modules():
            if not list(module.children()):

                def hook(module, inputs, output):
                    t, u = inputs[0], output
                    signs.append(
                        {
                            "name": name,
                            "rms_in": t.double().square().mean().sqrt().item(),
                            "rms_out": u.double().square().mean().sqrt().item(),
                            "largest": u.max().item(),
                            "sound_in": t.isfinite().all().item(),
                            "sound_out": u.isfinite().all().item(),
                        }
                    )

                handles.append(module.register_forward_hook(hook))
        try:
            with torch.no_grad():
                model(x)
        finally:
            for handle in handles:
                handle.remove()
        return signs
    """,
    says=["'name'"],
)
wrong(
    "verdicts are tensors",
    """
    def vital_signs(model: nn.Module, x: Tensor) -> list[dict]:
        signs, handles = [], []

        def rms(tensor):
            return tensor.double().square().mean().sqrt().item()

        def listen(name):
            def hook(module, inputs, output):
                if isinstance(inputs[0], Tensor) and isinstance(output, Tensor):
                    sign = {
                        "name": name,
                        "rms_in": rms(inputs[0]),
                        "rms_out": rms(output),
                        "largest": output.max().item(),
                    }
                    sign |= {"sound_in": inputs[0].isfinite().all(), "sound_out": output.isfinite().all()}
                    signs.append(sign)

            return hook

        try:
            for name, module in model.named_modules():
                if not list(module.children()):
                    handles.append(module.register_forward_hook(listen(name)))
            with torch.no_grad():
                model(x)
        finally:
            for handle in handles:
                handle.remove()
        return signs
    """,
    says=["also of what .all() returns"],
)
right(
    "hooks in an exit stack",
    """
    import contextlib


    @torch.inference_mode()
    def vital_signs(model, x):
        signs = []

        def note(name, module, inputs, output):
            tensors = [t for t in (*inputs[:1], output) if isinstance(t, Tensor)]
            if len(tensors) == 2:
                into, out = (t.to(torch.float64).flatten() for t in tensors)
                sign = {"name": name, "largest": float(out.max())}
                for word, t in (("in", into), ("out", out)):
                    sign[f"rms_{word}"] = float(torch.linalg.vector_norm(t) / math.sqrt(t.numel()))
                    sign[f"sound_{word}"] = not bool((t.isnan() | t.isinf()).any())
                signs.append(sign)

        with contextlib.ExitStack() as stack:
            for name, module in model.named_modules():
                if next(module.children(), None) is None:
                    hook = lambda m, i, o, name=name: note(name, m, i, o)
                    stack.enter_context(module.register_forward_hook(hook))
            model(x)
        return signs
    """,
)

another_way = """
def vital_signs(model, x):
    signs, handles = [], []

    def listen(name):
        def hook(module, inputs, output):
            given = inputs[0]
            if not isinstance(given, Tensor) or not isinstance(output, Tensor):
                return
            signs.append(
                dict(
                    name=name,
                    rms_in=given.double().square().mean().sqrt().item(),
                    rms_out=output.double().square().mean().sqrt().item(),
                    largest=output.max().item(),
                    sound_in=bool(given.isfinite().all()),
                    sound_out=bool(output.isfinite().all()),
                )
            )

        return hook

    for name, module in model.named_modules():
        if not list(module.children()):
            handles.append(module.register_forward_hook(listen(name)))
    try:
        with torch.no_grad():
            model(x)
    finally:
        for handle in handles:
            handle.remove()
    return signs
"""

wrong("all modules", ("not list(module.children())", "name"), of=another_way, says=["inner is no leaf"])
wrong(
    "children only",
    ("model.named_modules", "model.named_children"),
    of=another_way,
    says=["one dict for each CALL of a leaf"],
)
wrong(
    "deviation for rms",
    ("given.double().square().mean().sqrt", "given.double().std"),
    ("output.double().square().mean().sqrt", "output.double().std"),
    of=another_way,
    says=["the root of the MEAN of the squares"],
)
wrong(
    "clears all hooks",
    (
        """
        for handle in handles:
            handle.remove()
        """,
        """
        for module in model.modules():
            module._forward_hooks.clear()
        """,
    ),
    of=another_way,
    says=["somebody else's hook is gone"],
)
wrong(
    "hooks stay",
    (
        """
        try:
            with torch.no_grad():
                model(x)
        finally:
            for handle in handles:
                handle.remove()
        """,
        """
        with torch.no_grad():
            model(x)
        """,
    ),
    of=another_way,
    says=["handle.remove() for every handle"],
)
wrong(
    "hooks stay after an error",
    (
        """
        try:
            with torch.no_grad():
                model(x)
        finally:
            for handle in handles:
                handle.remove()
        """,
        """
        with torch.no_grad():
            model(x)
        for handle in handles:
            handle.remove()
        """,
    ),
    of=another_way,
    says=["a forward that raises left your hooks in the model"],
)
wrong(
    "in evaluation mode for the call",
    (
        """
        try:
            with torch.no_grad():
                model(x)
        finally:
        """,
        """
        mode = model.training
        try:
            with torch.no_grad():
                model.eval()(x)
        finally:
            model.train(mode)
        """,
    ),
    of=another_way,
    says=["as it trains"],
)
wrong(
    "in training mode",
    (
        """
        with torch.no_grad():
            model(x)
        """,
        """
        with torch.no_grad():
            model.train()(x)
        """,
    ),
    of=another_way,
    says=["neither train() nor eval()"],
)
wrong(
    "in float32", ("given.double()", "given"), ("output.double()", "output"), of=another_way, says=["before square()"]
)
wrong("largest size", ("output.max", "output.abs().max"), of=another_way, says=["not the largest size"])
wrong(
    "nan only",
    ("bool(output.isfinite().all())", "not bool(output.isnan().any())"),
    of=another_way,
    says=["minus infinity is not finite"],
)
wrong(
    "norm for rms",
    ("given.double().square().mean().sqrt", "given.double().norm"),
    ("output.double().square().mean().sqrt", "output.double().norm"),
    of=another_way,
    says=["the root of the MEAN of the squares"],
)
wrong(
    "once a module",
    (
        "given = inputs[0]",
        """
        given = inputs[0]
        if any(sign["name"] == name for sign in signs):
            return
        """,
    ),
    of=another_way,
    says=["act is called twice"],
)
wrong(
    "stumbles over a tuple",
    ("not isinstance(given, Tensor) or not isinstance(output, Tensor)", "given is None"),
    of=another_way,
    says=["AttributeError", "the LSTM returns a tuple"],
)
wrong(
    "swallows the error",
    (
        """
        try:
            with torch.no_grad():
                model(x)
        finally:
            for handle in handles:
                handle.remove()
        """,
        """
        try:
            with torch.no_grad():
                model(x)
        except RuntimeError:
            pass
        finally:
            for handle in handles:
                handle.remove()
        """,
    ),
    of=another_way,
    says=["finally, and no except"],
)
wrong(
    "tensors not numbers",
    ("given.double().square().mean().sqrt().item", "given.double().square().mean().sqrt"),
    ("output.double().square().mean().sqrt().item", "output.double().square().mean().sqrt"),
    ("output.max().item()", "output"),
    of=another_way,
    says=["plain numbers"],
)
wrong(
    "with a graph",
    (
        """
        with torch.no_grad():
            model(x)
        """,
        """
        if True:
            model(x)
        """,
    ),
    of=another_way,
    says=["under torch.no_grad()"],
)
wrong(
    "looks at the output only",
    ("inputs and isinstance(inputs[0], Tensor) and isinstance(output, Tensor)", "isinstance(output, Tensor)"),
    says=["AttributeError", "whose output or first input is no tensor"],
)
wrong(
    "the input is sound unless it is NaN",
    ('"sound_in": inputs[0].isfinite().all().item()', '"sound_in": not inputs[0].isnan().any().item()'),
    says=["of the first input and of the output"],
)
wrong(
    "only the input in float64",
    ("rms(output)", "output.square().mean().sqrt().item()"),
    says=["and of its output", "before square()"],
)

wrong(
    "the model is nobody",
    ("not list(module.children())", "name and not list(module.children())"),
    of=another_way,
    says=["a model without modules inside is a leaf itself"],
)
wrong("of the last input", ("rms(inputs[0])", "rms(inputs[-1])"), says=["of two inputs the first one counts"])
wrong(
    "switches graphs off for good",
    ("with torch.no_grad():", "torch.set_grad_enabled(False)\nif True:"),
    says=["which ends with its block"],
)

# Task 3 · Where a NaN is born

wrong, right = LAB.task("blame")

right(
    "by hooks on tensors",
    """
    def blame(model, x, criterion):
        sound = lambda t: bool(torch.isfinite(t).all())
        arrived, stages = {}, []
        if not sound(x):
            return ("input", "")
        h = x
        for name, module in model.named_children():
            h = module(h)
            if not sound(h):
                return ("forward", name)
            if h.requires_grad:
                h.register_hook(lambda g, name=name: arrived.update({name: sound(g)}))
            stages.insert(0, name)
        loss = criterion(h)
        if not sound(loss):
            return ("loss", "")
        names, asking = zip(*[(n, p) for n, p in model.named_parameters() if p.requires_grad] or [((), ())])
        if not loss.requires_grad:
            return None
        own = dict(zip(names, torch.autograd.grad(loss, asking, allow_unused=True)))
        if not arrived.get(stages[0], True):
            return ("loss", "")
        for name, feeder in zip(stages, [*stages[1:], None]):
            mine = [g for n, g in own.items() if n.split(".")[0] == name and g is not None]
            if not arrived.get(feeder, True) or not all(map(sound, mine)):
                return ("backward", name)
        return None
    """,
)
right(
    "two passes",
    """
    def blame(model, x, criterion):
        def bad(t):
            return t is not None and not bool(t.isfinite().all())

        if bad(x):
            return ["input", ""]
        names = [name for name, _ in model.named_children()]
        values = [x]
        for name in names:
            values.append(model.get_submodule(name)(values[-1]))
            if bad(values[-1]):
                return ["forward", name]
        loss = criterion(values[-1])
        if bad(loss):
            return ["loss", ""]
        if loss.grad_fn is None:
            return None

        def gradient(t):
            return (
                torch.autograd.grad(loss, t, retain_graph=True, allow_unused=True)[0] if t.requires_grad else None
            )

        if bad(gradient(values[-1])):
            return ["loss", ""]
        for place in range(len(names) - 1, -1, -1):
            if any(bad(gradient(t)) for t in [values[place], *model.get_submodule(names[place]).parameters()]):
                return ["backward", names[place]]
        return None
    """,
)

another_way = """
def blame(model, x, criterion):
    def fine(t):
        return t is None or bool(t.isfinite().all())

    if not fine(x):
        return "input", ""
    h, outputs = x, []
    for name, module in model.named_children():
        h = module(h)
        outputs.append((name, module, h))
        if not fine(h):
            return "forward", name
    loss = criterion(h)
    if not fine(loss):
        return "loss", ""
    if not loss.requires_grad:
        return None
    asking = [t for t in [*(o for *_, o in outputs), *model.parameters()] if t.requires_grad]
    gradients = dict(zip(map(id, asking), torch.autograd.grad(loss, asking, allow_unused=True)))
    if not fine(gradients.get(id(h))):
        return "loss", ""
    before = [x, *(o for *_, o in outputs)]
    for number in reversed(range(len(outputs))):
        name, module, _ = outputs[number]
        handed_on = [before[number], *module.parameters()]
        if not all(fine(gradients.get(id(t))) for t in handed_on):
            return "backward", name
    return None
"""

wrong("any finite entry", ("t.isfinite().all", "t.isfinite().any"), of=another_way, says=["isfinite().all()"])
wrong(
    "asks the frozen",
    (
        "[t for t in [*(o for *_, o in outputs), *model.parameters()] if t.requires_grad]",
        "[t for t in [*(o for *_, o in outputs), *model.parameters()]]",
    ),
    of=another_way,
    says=["ask autograd only about tensors with requires_grad"],
)
wrong(
    "forgets parameters",
    ("[before[number], *module.parameters()]", "[before[number]]"),
    of=another_way,
    says=["look at module.parameters() too"],
)
wrong(
    "forgets the gradient of the loss",
    (
        """
        if not fine(gradients.get(id(h))):
            return "loss", ""
        """,
        "",
    ),
    of=another_way,
    says=["what arrives at the last output comes from the loss"],
)
wrong(
    "forgets the loss",
    (
        """
        if not fine(loss):
            return "loss", ""
        """,
        "",
    ),
    of=another_way,
    says=["look at the loss itself too"],
)
wrong("from the first", ("reversed(range(len(outputs)))", "range(len(outputs))"), of=another_way, says=["by hand"])
wrong(
    "looks at the end only",
    (
        """
        if not fine(h):
            return "forward", name
        """,
        "",
    ),
    (
        "loss = criterion(h)",
        """
        loss = criterion(h)
        if not fine(h):
            return "forward", name
        """,
    ),
    of=another_way,
    says=["make"],
)
wrong(
    "missing is broken",
    ("t is None or bool(t.isfinite().all())", "t is not None and bool(t.isfinite().all())"),
    (
        "(fine(gradients.get(id(t))) for t in handed_on)",
        "(fine(gradients.get(id(t))) for t in handed_on if t.requires_grad)",
    ),
    of=another_way,
    says=["None is no NaN"],
)
wrong("nan only", ("t.isfinite", "t.isnan().logical_not"), of=another_way, says=["infinite"])
wrong(
    "stores gradients",
    (
        "asking = [t for t in [*(o for *_, o in outputs), *model.parameters()] if t.requires_grad]",
        """
        loss.backward(retain_graph=True)
        asking = [t for t in [*(o for *_, o in outputs), *model.parameters()] if t.requires_grad]
        """,
    ),
    of=another_way,
    says=["store nothing in .grad"],
)
wrong(
    "stumbles without a graph",
    (
        """
        if not loss.requires_grad:
            return None
        """,
        "",
    ),
    of=another_way,
    says=["a loss without a graph has no backward"],
)
wrong(
    "the first for a bad input",
    (
        """
        if not fine(x):
            return "input", ""
        """,
        "",
    ),
    of=another_way,
    says=["look at x before you call anybody"],
)
wrong(
    "the module before",
    ("before[number]", "outputs[number][2]"),
    of=another_way,
    says=["that of the module between the two gradients"],
)
wrong(
    "loses older gradients",
    (
        """
        gradients = dict(zip(map(id, asking), torch.autograd.grad(loss, asking, allow_unused=True)))
        """,
        """
        for t in asking:
            t.retain_grad()
            t.grad = None
        loss.backward()
        gradients = {id(t): t.grad for t in asking}
        model.zero_grad()
        """,
    ),
    of=another_way,
    says=["a gradient that was there before is to stay"],
)
wrong(
    "from the first to the last",
    (
        """
        before = [x, *outputs[:-1]]
        for (name, module), given in reversed(list(zip(model.named_children(), before, strict=True))):
            if not all(fine(gradients.get(id(t))) for t in (given, *module.parameters())):
                return "backward", name
        """,
        """
        before = [x, *outputs[:-1]]
        for (name, module), given, made in zip(model.named_children(), before, outputs, strict=True):
            handed_on = (given, *module.parameters())
            if fine(gradients.get(id(made))) and not all(fine(gradients.get(id(t))) for t in handed_on):
                return "backward", name
        """,
    ),
    says=["from the last module to the first"],
)

# Task 4 · The diagnosis

wrong, right = LAB.task("diagnose")

wrong(
    "all diseases of a layer",
    (
        'without = [sign["name"] for sign in signs if gradients[f"{sign[\'name\']}.weight"] == "none"]',
        'without = [sign["name"] for sign in signs if gradients[sign["name"] + ".weight"] == "none"]',
    ),
    ('elif gradients[f"{name}.weight"] == "frozen":', 'elif gradients[name + ".weight"] == "frozen":'),
    ("elif without and name == without[-1]:", "if name in without[-1:]:"),
    says=["one disease for a layer"],
)
wrong(
    "broken whatever goes in",
    ("f\"{sign['name']}.weight\"", 'sign["name"] + ".weight"'),
    ('fed and not sign["sound_out"]', 'not sign["sound_out"]'),
    ('f"{name}.weight"', 'name + ".weight"'),
    ("without and name == without[-1]", "name in without[-1:]"),
    says=["fed NaN and not to blame"],
)
wrong(
    "by its own backward",
    (
        "gradients = triage(model, lambda m: F.cross_entropy(m(x), y))",
        """
        F.cross_entropy(model(x), y).backward()
        gradients = triage(model, lambda m: F.cross_entropy(m(x), y))
        """,
    ),
    ("f\"{sign['name']}.weight\"", 'sign["name"] + ".weight"'),
    ('f"{name}.weight"', 'name + ".weight"'),
    ("without and name == without[-1]", "name in without[-1:]"),
    says=["leaves nothing in .grad"],
)
wrong(
    "by kind of disease",
    ("f\"{sign['name']}.weight\"", 'sign["name"] + ".weight"'),
    ('f"{name}.weight"', 'name + ".weight"'),
    ("without and name == without[-1]", "name in without[-1:]"),
    ("return found", "return sorted(found, key=lambda pair: DISEASES.index(pair[1]))"),
    says=["and the list follows the calls"],
)
wrong(
    "dead by zeros",
    ("f\"{sign['name']}.weight\"", 'sign["name"] + ".weight"'),
    ('sign["sound_in"] and rms_in > 0', 'sign["sound_in"]'),
    ('fed and sign["largest"] <= 0 < rms_out', "rms_out == 0"),
    ('f"{name}.weight"', 'name + ".weight"'),
    ("without and name == without[-1]", "name in without[-1:]"),
    says=["largest ≤ 0 < rms_out"],
)
wrong(
    "dead if nothing comes out",
    ("f\"{sign['name']}.weight\"", 'sign["name"] + ".weight"'),
    ('fed and sign["largest"] <= 0 < rms_out', 'sign["largest"] <= 0'),
    ('f"{name}.weight"', 'name + ".weight"'),
    ("without and name == without[-1]", "name in without[-1:]"),
    says=["The layers behind it get zeros"],
)
wrong(
    "everybody before the cut",
    ("f\"{sign['name']}.weight\"", 'sign["name"] + ".weight"'),
    ('f"{name}.weight"', 'name + ".weight"'),
    ("without and name == without[-1]", "name in without"),
    says=["the others are victims"],
)
wrong(
    "exploding before dead",
    """
    def diagnose(model, x, y):
        gradients = triage(model, lambda m: F.cross_entropy(m(x), y))
        signs = [sign for sign in vital_signs(model, x) if isinstance(model.get_submodule(sign["name"]), nn.Linear)]
        without = [sign["name"] for sign in signs if gradients[sign["name"] + ".weight"] == "none"]
        found = []
        for sign in signs:
            name, rms_in, rms_out = sign["name"], sign["rms_in"], sign["rms_out"]
            fed = sign["sound_in"] and rms_in > 0
            if fed and not sign["sound_out"]:
                found.append((name, "broken"))
            elif False:
                found.append((name, "dead"))
            elif fed and rms_out > 100 * rms_in:
                found.append((name, "exploding"))
            elif fed and sign["largest"] <= 0 < rms_out:
                found.append((name, "dead"))
            elif fed and rms_out < rms_in / 100:
                found.append((name, "fading"))
            elif gradients[name + ".weight"] == "frozen":
                found.append((name, "frozen"))
            elif name in without[-1:]:
                found.append((name, "cut"))
        return found
    """,
    says=["dead stands above exploding"],
)
wrong(
    "exploding by its height",
    ("f\"{sign['name']}.weight\"", 'sign["name"] + ".weight"'),
    ("fed and rms_out > 100 * rms_in", "rms_out > 100"),
    ('f"{name}.weight"', 'name + ".weight"'),
    ("without and name == without[-1]", "name in without[-1:]"),
    says=["only hand the size on"],
)
wrong(
    "fading by its height",
    ("f\"{sign['name']}.weight\"", 'sign["name"] + ".weight"'),
    ("rms_in / 100", "0.01"),
    ('f"{name}.weight"', 'name + ".weight"'),
    ("without and name == without[-1]", "name in without[-1:]"),
    says=["only hand the size on"],
)
wrong(
    "frozen is cut too",
    ('gradients[f"{sign[\'name\']}.weight"] == "none"', 'gradients[sign["name"] + ".weight"] in ("none", "frozen")'),
    ('gradients[f"{name}.weight"] == "frozen"', 'gradients[name + ".weight"] == "never"'),
    ("without and name == without[-1]", "name in without[-1:]"),
    says=["frozen"],
)
wrong(
    "in the order of registration",
    ("f\"{sign['name']}.weight\"", 'sign["name"] + ".weight"'),
    ('f"{name}.weight"', 'name + ".weight"'),
    ("without and name == without[-1]", "name in without[-1:]"),
    ("return found", "return [pair for name, _ in model.named_modules() for pair in found if pair[0] == name]"),
    says=["the order of the calls"],
)
wrong(
    "the first without",
    ("f\"{sign['name']}.weight\"", 'sign["name"] + ".weight"'),
    ('f"{name}.weight"', 'name + ".weight"'),
    ("without and name == without[-1]", "name in without[:1]"),
    says=["the others are victims"],
)
wrong(
    "uncalled layers are cut",
    ("f\"{sign['name']}.weight\"", 'sign["name"] + ".weight"'),
    (
        "found = []",
        'found = [(n[:-7], "cut") for n, kind in gradients.items() if n == "spare.weight" and kind == "none"]',
    ),
    ('f"{name}.weight"', 'name + ".weight"'),
    ("without and name == without[-1]", "name in without[-1:]"),
    says=["a layer that nobody calls (spare) has no vital signs"],
)
right(
    "table of rules",
    """
    def diagnose(model, x, y):
        kinds = triage(model, lambda m: F.cross_entropy(m(x), y))
        linear = {name for name, module in model.named_modules() if isinstance(module, nn.Linear)}
        layers = [s | {"kind": kinds[s["name"] + ".weight"]} for s in vital_signs(model, x) if s["name"] in linear]
        last_cut = next((s["name"] for s in reversed(layers) if s["kind"] == "none"), None)
        for s in layers:
            s["gain"] = s["rms_out"] / s["rms_in"] if s["sound_in"] and s["rms_in"] else math.nan
        rules = {
            "broken": lambda s: s["sound_in"] and not s["sound_out"],
            "dead": lambda s: s["gain"] > 0 and s["largest"] <= 0,
            "exploding": lambda s: s["gain"] > 100,
            "fading": lambda s: s["gain"] < 0.01,
            "frozen": lambda s: s["kind"] == "frozen",
            "cut": lambda s: s["name"] == last_cut,
        }
        seen = [(s["name"], [disease for disease, shows in rules.items() if shows(s)]) for s in layers]
        return [(name, diseases[0]) for name, diseases in seen if diseases]
    """,
)
wrong(
    "leaves out who is fed NaN",
    (
        'fed = sign["sound_in"] and rms_in > 0',
        """
        if not sign["sound_in"]:
            continue
        fed = rms_in > 0
        """,
    ),
    says=["fed with NaN can still be frozen, or cut"],
)
wrong("exploding from 1000", ("100 * rms_in", "1000 * rms_in"), says=["only more than 100 times is exploding"])
wrong("fading from 1/10", ("rms_in / 100", "rms_in / 10"), says=["only less than a hundredth fading"])
wrong(
    "frozen by its bias",
    (
        'gradients[f"{name}.weight"] == "frozen"',
        '"frozen" in (gradients[f"{name}.weight"], gradients.get(f"{name}.bias"))',
    ),
    says=["the weight is asked"],
)
wrong("takes fed with zeros for dead", (" and rms_in > 0", ""), says=["what it was fed is not its fault"])
wrong(
    "frozen above all",
    (
        'if fed and not sign["sound_out"]:',
        """
        if gradients[f"{name}.weight"] == "frozen":
            found.append((name, "frozen"))
        elif fed and not sign["sound_out"]:
        """,
    ),
    says=["frozen stands below in the table"],
)
wrong(
    "takes all 0 for dead",
    ('sign["largest"] <= 0 < rms_out', 'sign["largest"] <= 0'),
    says=["its output is all 0: not dead"],
)
wrong("dead is below 0", ('sign["largest"] <= 0', 'sign["largest"] < 0'), says=["no entry above 0: the largest is 0"])
wrong(
    "fading above dead",
    (
        'elif fed and sign["largest"] <= 0 < rms_out:',
        """
        elif fed and rms_out < rms_in / 100:
            found.append((name, "fading"))
        elif fed and sign["largest"] <= 0 < rms_out:
        """,
    ),
    says=["dead stands above fading"],
)
wrong(
    "takes fed with infinity for broken",
    ('sign["sound_in"] and rms_in > 0', "rms_in > 0"),
    says=["who is fed it is not to blame"],
)
wrong(
    "exploding from nothing",
    ("elif fed and rms_out > 100", "elif rms_out > 100"),
    says=["what it was fed is not its fault"],
)
wrong(
    "dead from nothing",
    ('elif fed and sign["largest"]', 'elif sign["sound_in"] and sign["largest"]'),
    says=["what it was fed is not its fault"],
)
wrong(
    "layers of one class alone",
    (
        'isinstance(model.get_submodule(sign["name"]), nn.Linear)',
        'type(model.get_submodule(sign["name"])) is nn.Linear',
    ),
    says=["its output is all 0"],
)
wrong(
    "leaves evaluation mode", ("gradients = triage", "model.eval()\ngradients = triage"), says=["leaves the mode alone"]
)

# Task 5 · The cure

wrong, right = LAB.task("cure")

wrong(
    "for ever",
    """
    def cure(model, x, y):
        record = []
        for _ in range(50):
            found = diagnose(model, x, y)
            for place, disease in found:
                treat(model, place, disease)
            record += found
        return record
    """,
    says=["no treatment helps here"],
)
wrong(
    "gives up a round late",
    """
    def cure(model, x, y):
        record = []
        for number in itertools.count():
            found = diagnose(model, x, y)
            if not found:
                return record
            if number > 10:
                raise RuntimeError(f"{found[0][0]} is still {found[0][1]}")
            for place, disease in found:
                treat(model, place, disease)
            record += found
    """,
    says=["no more and no fewer"],
)
wrong(
    "one round",
    """
    def cure(model, x, y):
        record = diagnose(model, x, y)
        for place, disease in record:
            treat(model, place, disease)
        return record
    """,
    says=["what was hidden shows up only when you look again"],
)
wrong(
    "treats everybody",
    """
    def cure(model, x, y):
        record = []
        for _ in range(10):
            found = diagnose(model, x, y)
            record += found
            if not found:
                return record
            for name, module in model.named_children():
                if isinstance(module, nn.Linear):
                    for disease in DISEASES:
                        treat(model, name, disease)
        raise RuntimeError(f"still ill: {found}")
    """,
    says=["treat only what was found in it"],
)
right(
    "by recursion",
    """
    def cure(model, x, y, rounds=10):
        found = diagnose(model, x, y)
        if found and not rounds:
            raise RuntimeError(f"no help for {', '.join(place for place, _ in found)}")
        for pair in found:
            treat(model, *pair)
        return [*found, *cure(model, x, y, rounds - 1)] if found else []
    """,
)
wrong(
    "one at a time",
    """
    def cure(model, x, y):
        record = []
        while found := diagnose(model, x, y):
            if len(record) == 10:
                raise RuntimeError(f"still ill: {found}")
            treat(model, *found[0])
            record.append(found[0])
        return record
    """,
    says=["a round treats everybody on its list"],
)

another_way = """
def cure(model, x, y):
    record = []
    for _ in range(10):
        found = diagnose(model, x, y)
        record += found
        for place, disease in found:
            treat(model, place, disease)
    if found := diagnose(model, x, y):
        raise RuntimeError(f"still ill: {found}")
    return record
"""

wrong(
    "does not look after the tenth round",
    ("if found := diagnose(model, x, y):", "if found:"),
    of=another_way,
    says=["the tenth round helps here"],
)
wrong(
    "error without a name",
    ('f"still ill: {found}"', '"this patient cannot be helped"'),
    of=another_way,
    says=["with the name of a layer that is still ill"],
)
wrong(
    "new weights for all",
    ("record += found", 'record += found\ntreat(model, "head", "dead")'),
    of=another_way,
    says=["the weights of a healthy layer changed"],
)
wrong(
    "sorted",
    ("return record", "return sorted(record, reverse=True)"),
    of=another_way,
    says=["in the order of treatment"],
)
wrong("the last round only", ("record += found", "record = found"), of=another_way, says=["in all rounds"])
wrong(
    "counts treatments",
    ("record += found", "record += found\nif len(record) > 10:\n    raise RuntimeError(found[0][0])"),
    says=["count rounds"],
)

# Task 6 · The drill: one step divided

wrong, right = LAB.task("divide")

wrong(
    "only phases that came",
    """
    def divide(spans):
        ((start, stop),) = [(a, b) for kind, _, a, b in spans if kind == "step"]
        parts = {}
        for kind, name, a, b in spans:
            if kind == "phase":
                parts[name] = parts.get(name, 0) + b - a
        covered, reached = 0, start
        for a, b in sorted((a, min(b, stop)) for kind, _, a, b in spans if kind == "operator"):
            covered += max(0, b - max(a, reached))
            reached = max(reached, b)
        return {**parts, "idle": stop - start - sum(parts.values()), "operators": covered}
    """,
    says=["'backward'"],
)
right(
    "by counting who is open",
    """
    def divide(spans):
        start, stop = next((a, b) for kind, _, a, b in spans if kind == "step")
        changes = []
        for kind, name, a, b in spans:
            what = name if kind == "phase" else kind
            changes += [(min(max(a, start), stop), what, 1), (min(max(b, start), stop), what, -1)]
        depth = dict.fromkeys(("data", "forward", "backward", "optimizer", "operator", "step"), 0)
        spent = dict.fromkeys(depth, 0)
        then = start
        for now, what, change in sorted(changes):
            for name, open_ones in depth.items():
                spent[name] += (now - then) * (open_ones > 0)
            then, depth[what] = now, depth[what] + change
        covered, whole = spent.pop("operator"), spent.pop("step")
        return {**spent, "operators": covered, "idle": whole - sum(spent.values())}
    """,
)

another_way = """
def divide(spans):
    ((start, stop),) = [(a, b) for kind, _, a, b in spans if kind == "step"]
    parts = {name: 0 for name in ("data", "forward", "backward", "optimizer")}
    for kind, name, a, b in spans:
        if kind == "phase":
            parts[name] += b - a
    parts["idle"] = stop - start - sum(parts.values())
    covered, reached = 0, start
    for a, b in sorted((a, b) for kind, _, a, b in spans if kind == "operator"):
        b = min(b, stop)
        covered += max(0, b - max(a, reached))
        reached = max(reached, b)
    parts["operators"] = covered
    return parts
"""

wrong(
    "idle from first to last phase",
    (
        'parts["idle"] = stop - start - sum(parts.values())',
        """
        parts["idle"] = (
            max(b for k, _, a, b in spans if k == "phase")
            - min(a for k, _, a, b in spans if k == "phase")
            - sum(parts.values())
        )
        """,
    ),
    of=another_way,
    says=["idle is what of the step lies in no phase"],
)
wrong(
    "idle is without operators",
    ("parts.values()", '(b - a for kind, _, a, b in spans if kind == "operator")'),
    of=another_way,
    says=["idle is what of the step lies in no phase"],
)
wrong(
    "not cut at the begin",
    ("covered, reached = 0, start", "covered, reached = 0, 0"),
    of=another_way,
    says=["cut at both ends of the step"],
)
wrong("not cut at the end", ("b = min(b, stop)", ""), of=another_way, says=["nor does what lies outside the step"])
wrong(
    "operators added up",
    (
        """
        b = min(b, stop)
        covered += max(0, b - max(a, reached))
        reached = max(reached, b)
        """,
        "covered += max(0, min(b, stop) - max(a, start))",
    ),
    of=another_way,
    says=["Nested operators add nothing"],
)
wrong("remembers the last end", ("max(reached, b)", "b"), of=another_way, says=["remember the farthest end so far"])
wrong(
    "shares not nanoseconds",
    ("stop - start - sum(parts.values())", "(stop - start - sum(parts.values())) / (stop - start)"),
    of=another_way,
    says=["idle is what"],
)
wrong(
    "the last phase counts",
    ("parts[name] += b - a", "parts[name] = b - a"),
    of=another_way,
    says=["the sum of all phases of that name"],
)
wrong("unsorted", ("sorted", "list"), of=another_way, says=["covered time, once"])
wrong(
    "floats",
    (
        'parts["operators"] = covered',
        'parts["operators"] = covered\nparts = {name: float(t) for name, t in parts.items()}',
    ),
    of=another_way,
    says=["all of them ints"],
)

# Task 7 · The drill: whose time is it?

wrong, right = LAB.task("selfs")

wrong(
    "one name one stack",
    """
    def self_times(spans):
        operators = [(a, b, name) for kind, name, a, b in spans if kind == "operator"]
        own = {}
        for a, b, name in operators:
            inside = sum(d - c for c, d, other in operators if a <= c and d <= b and (c, d) != (a, b))
            own[name] = own.get(name, 0) + max(0, b - a - inside)
        return own
    """,
    says=["directly around it"],
)
wrong(
    "totals",
    """
    def self_times(spans):
        own = {}
        for kind, name, a, b in spans:
            if kind == "operator":
                own[name] = own.get(name, 0) + b - a
        return own
    """,
    says=["copy leaves addmm"],
)
right(
    "by the smallest around",
    """
    def self_times(spans):
        operators = [(begin, end, name) for kind, name, begin, end in spans if kind == "operator"]
        own = dict.fromkeys((name for *_, name in operators), 0)
        for begin, end, name in operators:
            own[name] += end - begin
            around = [o for o in operators if o[0] <= begin and end <= o[1] and o[:2] != (begin, end)]
            if around:
                own[min(around, key=lambda o: o[1] - o[0])[2]] -= end - begin
        return own
    """,
)

another_way = """
def self_times(spans):
    own, stack = {}, []
    operators = [(a, b, name) for kind, name, a, b in spans if kind == "operator"]
    for a, b, name in sorted(operators, key=lambda o: (o[0], -o[1])):
        while stack and stack[-1][1] <= a:
            stack.pop()
        for outer, _ in stack[-1:]:
            own[outer] -= b - a
        own[name] = own.get(name, 0) + b - a
        stack.append((name, b))
    return own
"""

wrong(
    "in the order given",
    ("sorted(operators, key=lambda o: (o[0], -o[1]))", "operators"),
    of=another_way,
    says=["sort them, outer ones first"],
)
wrong("last call only", ("own.get(name, 0) + b", "b"), of=another_way, says=["calls of one name are added up"])
wrong("leaves everybody around", ("stack[-1:]", "stack"), of=another_way, says=["and not linear too"])
wrong(
    "phases are operators",
    ('kind == "operator"', "True"),
    of=another_way,
    says=["phases and the step are no operators"],
)
wrong(
    "short ones first",
    ("sorted(operators, key=lambda o: (o[0], -o[1]))", "sorted(operators)"),
    of=another_way,
    says=["the longer one is around the other"],
)
wrong("touching is inside", ("stack[-1][1] <= a", "stack[-1][1] < a"), of=another_way, says=["by hand"])

# Task 8 · The drill: a lean step

wrong, right = LAB.task("lean")

wrong(
    "a number for each parameter",
    ("outputs.argmax(1).eq(targets)", "(outputs.argmax(1) == targets)"),
    (
        "nn.utils.get_total_norm([p.grad for p in model.parameters()])",
        "math.sqrt(sum(p.grad.norm().item() ** 2 for p in model.parameters()))",
    ),
    ("norm.item()", "norm"),
    says=["read three numbers at the end"],
)
wrong(
    "a list for each parameter",
    (
        "nn.utils.get_total_norm([p.grad for p in model.parameters()])",
        "math.sqrt(sum(p.grad.norm().tolist() ** 2 for p in model.parameters()))",
    ),
    ("norm.item()", "norm"),
    says=["wait as item() does"],
)
wrong(
    "numbers asked for in the optimizer",
    ("norm = nn.utils.get_total_norm([p.grad for p in model.parameters()])", ""),
    (
        "optimizer.step()",
        """
        norm = math.sqrt(sum(p.grad.norm().item() ** 2 for p in model.parameters()))
        optimizer.step()
        """,
    ),
    ("norm.item()", "norm"),
    says=["in the optimizer's phase, too"],
)
wrong(
    "accuracy after the update",
    ("outputs.argmax(1).eq(targets)", "(outputs.argmax(1) == targets)"),
    (
        'return {"loss": loss.item(), "accuracy": accuracy.item(), "norm": norm.item()}',
        """
        accuracy = model(batch).argmax(1).eq(targets).float().mean()
        return {"loss": loss.item(), "accuracy": accuracy.item(), "norm": norm.item()}
        """,
    ),
    says=["of the same forward, before the update"],
)
wrong(
    "asks in the middle",
    ("outputs.argmax(1).eq(targets).float().mean", "(outputs.argmax(1) == targets).float().mean().item"),
    (
        "nn.utils.get_total_norm([p.grad for p in model.parameters()])",
        "nn.utils.get_total_norm([p.grad for p in model.parameters()]).item()",
    ),
    (
        '{"loss": loss.item(), "accuracy": accuracy.item(), "norm": norm.item()}',
        '{"loss": loss.item(), "accuracy": accuracy, "norm": norm}',
    ),
    says=["behind the last phase"],
)
wrong(
    "forgets zero grad",
    ("outputs.argmax(1).eq(targets)", "(outputs.argmax(1) == targets)"),
    ("optimizer.zero_grad()", ""),
    says=["were the gradients zeroed"],
)
wrong(
    "forward in data",
    """
    def train_step(model, optimizer, inputs, labels, rows):
        with phase("data", device):
            batch, targets = inputs[rows], labels[rows]
            outputs = model(batch)
        with phase("forward", device):
            loss = F.cross_entropy(outputs, targets)
            accuracy = (outputs.argmax(1) == targets).float().mean()
        with phase("backward", device):
            loss.backward()
            norm = nn.utils.get_total_norm([p.grad for p in model.parameters()])
        with phase("optimizer", device):
            optimizer.step()
            optimizer.zero_grad()
        return {"loss": loss.item(), "accuracy": accuracy.item(), "norm": norm.item()}
    """,
    says=["the forward belongs into its phase"],
)
wrong(
    "no optimizer step",
    ("outputs.argmax(1).eq(targets)", "(outputs.argmax(1) == targets)"),
    ("optimizer.step()", ""),
    says=["did the optimizer step?"],
)
wrong(
    "no phase for data",
    (
        """
        with phase("data", device):
            batch, targets = inputs[rows], labels[rows]
        """,
        """
        if True:
            batch, targets = inputs[rows], labels[rows]
        """,
    ),
    ("outputs.argmax(1).eq(targets)", "(outputs.argmax(1) == targets)"),
    says=['mark it: with phase("data"'],
)
wrong(
    "norm after zero grad",
    ("outputs.argmax(1).eq(targets)", "(outputs.argmax(1) == targets)"),
    ("nn.utils.get_total_norm([p.grad for p in model.parameters()])", "None"),
    ("optimizer.zero_grad()", "optimizer.zero_grad(set_to_none=False)"),
    (
        'return {"loss": loss.item(), "accuracy": accuracy.item(), "norm": norm.item()}',
        """
        norm = nn.utils.get_total_norm([p.grad for p in model.parameters()])
        return {"loss": loss.item(), "accuracy": accuracy.item(), "norm": norm.item()}
        """,
    ),
    says=["after backward and before zero_grad"],
)
wrong(
    "norms added up",
    ("outputs.argmax(1).eq(targets)", "(outputs.argmax(1) == targets)"),
    ("nn.utils.get_total_norm([p.grad for p in model.parameters()])", "sum(p.grad.norm() for p in model.parameters())"),
    says=["the root of the sum of all squares"],
)
wrong(
    "row by row",
    ("inputs[rows]", "torch.stack([inputs[i] for i in rows])"),
    ("outputs.argmax(1).eq(targets)", "(outputs.argmax(1) == targets)"),
    says=["index with the whole tensor"],
)
wrong(
    "second forward elsewhere",
    ("outputs.argmax(1).eq(targets)", "(outputs.argmax(1) == targets)"),
    (
        'return {"loss": loss.item(), "accuracy": accuracy.item(), "norm": norm.item()}',
        """
        with torch.no_grad():
            model(batch)
        return {"loss": loss.item(), "accuracy": accuracy.item(), "norm": norm.item()}
        """,
    ),
    says=["a forward outside of its phase is a forward all the same"],
)
wrong(
    "second forward without a graph",
    ("outputs.argmax", "torch.no_grad()(model)(batch).argmax"),
    says=["take the accuracy from the outputs that you have"],
)
wrong(
    "sum of losses",
    ("F.cross_entropy(outputs, targets)", 'F.cross_entropy(outputs, targets, reduction="sum")'),
    ("outputs.argmax(1).eq(targets)", "(outputs.argmax(1) == targets)"),
    says=["the mean cross-entropy"],
)
wrong(
    "tensors in the log",
    ("outputs.argmax(1).eq(targets)", "(outputs.argmax(1) == targets)"),
    (
        '{"loss": loss.item(), "accuracy": accuracy.item(), "norm": norm.item()}',
        '{"loss": loss, "accuracy": accuracy.item(), "norm": norm}',
    ),
    says=["a tensor in a log keeps its graph alive"],
)
wrong(
    "unchanged but for the data",
    ("outputs.argmax(1).eq(targets)", "(model(batch).argmax(1) == targets)"),
    says=["take the accuracy from the outputs"],
)
right(
    "norm of norms zero first",
    """
    def train_step(model, optimizer, inputs, labels, rows):
        optimizer.zero_grad()
        with phase("data", device):
            batch, targets = inputs[rows], labels[rows]
        with phase("forward", device):
            outputs = model(batch)
            loss = F.cross_entropy(outputs, targets)
            accuracy = (outputs.argmax(1) == targets).float().mean()
        with phase("backward", device):
            loss.backward()
            norm = torch.stack([p.grad.square().sum() for p in model.parameters()]).sum().sqrt()
        with phase("optimizer", device):
            optimizer.step()
        return {"loss": loss.item(), "accuracy": accuracy.item(), "norm": norm.item()}
    """,
)
right(
    "numbers read at once",
    ("inputs[rows], labels[rows]", "inputs.index_select(0, rows), labels.index_select(0, rows)"),
    ("outputs.argmax(1).eq(targets)", "(outputs.argmax(1) == targets)"),
    (
        'return {"loss": loss.item(), "accuracy": accuracy.item(), "norm": norm.item()}',
        """
        numbers = torch.stack([loss.detach(), accuracy, norm]).tolist()
        return dict(zip(("loss", "accuracy", "norm"), numbers))
        """,
    ),
)
wrong(
    "a list in forward",
    ("eq(targets).float().mean()", "eq(targets).float().mean().tolist()"),
    ("accuracy.item()", "accuracy"),
    says=["before the optimizer's step, by any name"],
)
wrong(
    "an empty phase",
    ("batch, targets = inputs[rows], labels[rows]", "pass"),
    ("outputs = model(batch)", "batch, targets = inputs[rows], labels[rows]\noutputs = model(batch)"),
    says=["a phase holds what its name says", "the rows of the batch"],
)
wrong(
    "steps in backward",
    (
        "norm = nn.utils.get_total_norm([p.grad for p in model.parameters()])",
        "norm = nn.utils.get_total_norm([p.grad for p in model.parameters()])\noptimizer.step()",
    ),
    ("optimizer.step()\noptimizer.zero_grad()", "optimizer.zero_grad()"),
    says=["a phase holds what its name says", "the optimizer steps"],
)
