"""pyDCOP's max-sum on tables from a file, five seconds."""

import json
import sys
import time

sys.path.pop(0)  # this folder: this file has the package's name
import numpy as np
from pydcop.dcop.dcop import DCOP
from pydcop.dcop.objects import AgentDef, Domain, Variable
from pydcop.dcop.relations import NAryMatrixRelation
from pydcop.infrastructure.run import solve

if __name__ == "__main__":
    data = np.load(sys.argv[1])
    sizes, scopes = data["sizes"], data["scopes"]
    variables = [Variable(f"x{i}", Domain(f"d{i}", "", list(range(int(n))))) for i, n in enumerate(sizes)]
    problem = DCOP("tables", objective="min")  # solve() minimises whatever the objective
    for k, scope in enumerate(scopes):
        problem.add_constraint(NAryMatrixRelation([variables[int(i)] for i in scope], -data[f"t{k}"], f"f{k}"))
    problem.add_agents([AgentDef(f"a{n}", capacity=10**9) for n in range(len(sizes) + len(scopes))])
    start = time.perf_counter()
    found = solve(problem, "maxsum", "oneagent", timeout=5)
    choice = [int(found[f"x{i}"]) for i in range(len(sizes))]
    print(json.dumps({"method": "pyDCOP, 5 s", "choice": choice, "seconds": time.perf_counter() - start}))
