"""The machinery that runs the course: reads and executes lectures, keeps the ledger. Nothing imports it."""
