"""Measuring instruments for bytes, FLOPs and seconds. They do not change the code that they measure."""

from utils.measure.flops import (
    FUSED_ATTENTION,
    attention_formulas,
    count_flops,
    flops_by_operation,
    uncounted_operations,
)
from utils.measure.memory import AllocatorBytes, LiveBytes, Phase, ScratchBytes, round_to_blocks, saved_bytes
from utils.measure.timing import ratio, time_paired
