# earns: 2
# honest: strides
# shows: attack: <script>alert\(0\)
# shows: check-swap: .*alert\(3\)
# shows: check-diagonal: .*alert\(5\)
# shows: code-windows: RuntimeError: .*alert\(6\)
# %% attack
raise type("<script>alert(0)</script>", (Exception,), {})("</code><script>alert(1)</script>")
# %% code-swap
def swapped(x, a, b):  # </pre></details><script>alert(2)</script>
    raise ValueError("</pre><script>alert(3)</script><img src=x onerror=alert(4)>")
# %% code-diagonal
def diagonal(x, k=0):
    return "</pre><script>alert(5)</script>"
# %% code-windows
raise RuntimeError("</code><script>alert(6)</script>")
