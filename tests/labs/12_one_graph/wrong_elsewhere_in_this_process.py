# replaces: code-elsewhere
# caught by: check-elsewhere
# says: it is called by the program in the string


def elsewhere(file, loads):
    model = torch.export.load(file).module()
    with torch.no_grad():
        return [model(*load) for load in loads]
