"""Where in a step the numbers stop being finite."""

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager

from torch import Tensor, nn
from torch.nn.utils import get_total_norm
from torch.utils._pytree import tree_leaves

from utils.distributed.parallel import whole
from utils.loop.guards import Rewind


def first_not_finite(
    model: nn.Module,
    loss: Callable[[Tensor, Tensor], Tensor],
    parts: Iterable[tuple[Tensor, Tensor]],
    autocast: AbstractContextManager,
) -> str | None:
    """The first thing that is not finite when a step on `parts` is repeated: an input, a module's output, the loss, a
    parameter's gradient, or the norm of all gradients (beyond 1.8e19 its square leaves float32); in the order in which they
    are computed. None if all is finite, as when chance had a part in it.

    parts: the (x, y) of each micro-batch. The weights and buffers stay as they are; gradients are overwritten.
    """
    found: list[str] = []

    def look(what: str, values: object) -> None:
        if any(not leaf.isfinite().all() for leaf in tree_leaves(values) if isinstance(leaf, Tensor)):
            found.append(what)

    hooks = [
        module.register_forward_hook(
            lambda module, _, output, name=name: look(
                f"the output of {name or 'the model'} ({type(module).__name__})", output
            )
        )
        for name, module in model.named_modules()
    ]
    hooks += [
        parameter.register_post_accumulate_grad_hook(
            lambda parameter, name=name: look(f"the gradient of {name}", parameter.grad)
        )
        for name, parameter in model.named_parameters()
        if parameter.requires_grad
    ]
    before = Rewind(list(model.buffers()))
    model.zero_grad()
    try:
        for x, y in parts:
            look("the input", x)
            with autocast:
                total = loss(model(x), y)
            look("the loss", total)
            total.backward()
        norm = whole(get_total_norm([p.grad for p in model.parameters() if p.grad is not None]))
        look("the norm of the gradient, all of whose numbers are finite,", norm)
        return next(iter(found), None)  # not before all parts are done: other ranks may be waiting in theirs
    finally:
        before.restore()
        for hook in hooks:
            hook.remove()
