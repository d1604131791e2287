# replaces: code-resume


import io


def snapshot(optimizer):
    file = io.BytesIO()
    torch.save([optimizer.lr, optimizer.state], file)
    return {"parameters": len(optimizer.state), "bytes": file.getvalue()}


def restore(optimizer, notes):
    if notes["parameters"] != len(optimizer.parameters):
        raise ValueError(f"the snapshot holds {notes['parameters']} parameters")
    optimizer.lr, optimizer.state = torch.load(io.BytesIO(notes["bytes"]), weights_only=True)
