"""One process or many: ranks, how they meet, DDP and FSDP, and their checkpoints."""
