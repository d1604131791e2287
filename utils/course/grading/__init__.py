"""Grade a folder of submissions. Student code runs in workers that cannot do harm; verdicts are made elsewhere."""
