"""One stand-alone script per family of peers: started by ``dechbo.bench.peers`` in the peer's own environment.

A script imports ``wire`` (its neighbour, standard library only) and the peer's packages, never dechbo.
"""
