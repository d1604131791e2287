# earns: 0
# shows: check-strides: .*got: +True
# %% attack
import ast
class Empty(ast.NodeTransformer):
    def visit_FunctionDef(self, node):
        node.body = ast.parse("return True").body
        return node
get_ipython().ast_transformers.append(Empty())
