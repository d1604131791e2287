"""Grade a folder of submissions. Student code runs in sandboxed workers; another process decides the verdicts."""
