"""PGMax on tables from a file: max-product by 30 and by 200 damped rounds, and its smoothed dual LP for a bound."""

import json
import sys
import time

sys.path.pop(0)  # this folder: this file has the package's name
import numpy as np
from pgmax import fgraph, fgroup, infer, vgroup

data = np.load(sys.argv[1])
sizes, scopes = data["sizes"], data["scopes"]
tables = [data[f"t{k}"] for k in range(len(scopes))]
variables = vgroup.NDVarArray(num_states=int(sizes[0]), shape=(len(sizes),))
graph = fgraph.FactorGraph(variable_groups=[variables])
configs = np.array(list(np.ndindex(tables[0].shape)))
groups = fgroup.EnumFactorGroup(
    variables_for_factors=[[variables[int(i)] for i in scope] for scope in scopes],
    factor_configs=configs,
    log_potentials=np.array([table.ravel() for table in tables]),
)
graph.add_factors(groups)


def report(method, call):
    call()  # compiles
    start = time.process_time()
    choice, bound = call()
    seconds = time.process_time() - start
    print(json.dumps({"method": method, "choice": choice.tolist(), "bound": bound, "seconds": seconds}))


def max_product(rounds):
    bp = infer.BP(graph.bp_state, temperature=0.0)

    def call():
        arrays = bp.run(bp.init(), num_iters=rounds, damping=0.5)
        return np.array(infer.decode_map_states(bp.get_beliefs(arrays))[variables]), None

    return call


def dual(iterations, temperature):
    lp = infer.SDLP(graph.bp_state)

    def call():
        arrays = lp.run(lp.init(), logsumexp_temp=temperature, num_iters=iterations)
        choice = lp.decode_primal_unaries(arrays)[0][variables]
        return np.array(choice), float(lp.get_primal_upper_bound(arrays))

    return call


report("PGMax, 30 rounds", max_product(30))
report("PGMax, 200 rounds", max_product(200))
report("PGMax, dual LP, 200 steps", dual(200, 0.05))
