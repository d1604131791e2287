# replaces: code-elsewhere
# caught by: check-elsewhere
# says: raise with the last line


def elsewhere(file, loads: list[tuple]) -> list[Tensor]:
    """What the program in `file` returns for each tuple of tensors, in a fresh process; RuntimeError if that fails."""
    code = f"""
import torch
torch.set_num_threads(1)
model = torch.export.load({str(Path(file).resolve())!r}).module()
with torch.no_grad():
    torch.save([model(*load) for load in torch.load("loads.pt")], "outputs.pt")
"""
    with tempfile.TemporaryDirectory() as folder:
        torch.save(loads, Path(folder) / "loads.pt")
        command = [sys.executable, "-I", "-c", code]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError((done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[0])
        return torch.load(Path(folder) / "outputs.pt")
