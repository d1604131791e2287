# replaces: code-plan
# caught by: check-plan
# says: ['stage']: expected 0, got 3
# says: smallest stage


def plan(layers, width, vocabulary, context, tokens, gpus, peak, memory, mfu, dollars_per_hour):
    n = gpt_parameters(layers, width, vocabulary, context)
    flops = tokens * flops_per_token(layers, width, vocabulary, context)
    days, dollars = time_and_price(flops, gpus, peak, mfu, dollars_per_hour)
    stage = next((s for s in (3, 2, 1, 0) if state_bytes(n, gpus, s) <= 0.8 * memory), None)
    bound = "memory" if stage is None else "compute"
    return {
        "parameters": n, "tokens per parameter": tokens / n, "days": days, "dollars": dollars, "stage": stage, "bound by": bound
    }
