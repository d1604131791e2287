# replaces: code-elsewhere


import io

PROGRAM = """
import io, sys, torch
program = torch.export.load(sys.argv[1]).module()
loads = torch.load(io.BytesIO(sys.stdin.buffer.read()))
with torch.inference_mode():
    outputs = [program(*load).clone() for load in loads]
torch.save(outputs, sys.stdout.buffer)
"""


def elsewhere(file, loads):
    message = io.BytesIO()
    torch.save(loads, message)
    command = [sys.executable, "-I", "-c", PROGRAM, str(Path(file).absolute())]
    done = subprocess.run(command, input=message.getvalue(), capture_output=True)
    if done.returncode != 0:
        raise RuntimeError(done.stderr.decode().strip().rpartition("\n")[2])
    return torch.load(io.BytesIO(done.stdout))
