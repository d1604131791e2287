"""One process or many: ranks, their rendezvous, DDP and FSDP, and sharded checkpoints."""
