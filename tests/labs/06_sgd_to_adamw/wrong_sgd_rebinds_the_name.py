# replaces: code-sgd
# caught by: check-sgd
# says: p = p − … would only give the name p to a new tensor


class SGD(Optimizer):
    def step(self):
        with torch.no_grad():
            for p in self.parameters:
                if p.grad is not None:
                    p = p - self.lr * p.grad
