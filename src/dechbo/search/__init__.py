"""How an ask finds its point: the initial design, grids, max-sum, the joint bound, polish, restarts.

The room owns the maximisation of the acquisition. It knows models as posteriors and the space as a unit cube; it knows
nothing of evaluations still to come, of files or of processes.

In
    A ``Model`` and the surrogate to search, beta, pending points, failed points, fixed coordinates, the incumbent, an
    exclusion (what must not be suggested), ``SearchOptions``, and an ``Engine``.

Out
    A ``Suggestion``: the point, its acquisition value, the certificate of the final grid (value, upper bound, gap)
    where there is one, and its source.

One search, in order
    ``initial``       scrambled Sobol points, until enough evaluations are known
    ``grids``         a base grid over the whole domain within a budget of work; which factors can have tables
    ``engine``        the Engine protocol: who builds the tables and maximises them; LocalEngine does both here
    ``grid_search``   base grid, then zooms around the maximiser that halve the spacing, then polish
    ``polish``        gradient ascent in the continuous coordinates, free or within known constraints
    ``joint_search``  the best of many starts by mu + sqrt(beta) sigma of the whole function, for factors without
                      tables, for ``score="joint"``, and where the grid's point has nothing left to gain
    ``restart``       the search outside the known optima, once no progress has come for a while
    ``constrained``   the search under constraints that are modelled: where they may hold, or hold cautiously
    ``excluded``      points that must not be suggested: evaluated, pending, or against a known constraint

Sources of a suggestion (``info.source``)
    "initial design", "acquisition" (the grid's maximiser, certified), "joint bound", "restart" and "constrained" (not
    certified: no bound says how much better another point could be).

Nothing here lowers the acquisition from step to step, and a point is never suggested twice unless values are noisy. An
engine may keep solves of a grid that comes back with the next ask; ``Engine.prepare`` brings it to the same state after
a resume.
"""
