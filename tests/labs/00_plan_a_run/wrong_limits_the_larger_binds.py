# replaces: code-limits
# caught by: check-limits
# says: ['binds']
# says: expected: 'memory'
# says: got:      'compute'


def largest_models(days, gpus, peak, memory, mfu):
    limits = {"compute": int((gpus * peak * mfu * days * 86_400 / 120) ** 0.5), "memory": gpus * memory // 16}
    return {"by compute": limits["compute"], "by memory": limits["memory"], "binds": max(limits, key=limits.get)}
