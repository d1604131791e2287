"""Measuring instruments for bytes, FLOPs and seconds, of eager code.

To count bytes or FLOPs makes torch.compile skip a function that it has not compiled yet, also afterwards;
torch.compiler.reset() mends that.
"""

from utils.measure.committed import committed_measurement, machines_in_words
from utils.measure.flops import (
    FUSED_ATTENTION,
    attention_formulas,
    count_flops,
    flops_by_operation,
    uncounted_operations,
)
from utils.measure.memory import AllocatorBytes, LiveBytes, Phase, ScratchBytes, round_to_blocks, saved_bytes
from utils.measure.timing import ratio, time_paired
