"""How an ask finds its point: the initial design, proposals, the score that decides, polish; grids and max-sum.

The room owns the maximisation. It knows models as posteriors and the space as a unit cube; it knows nothing of
evaluations still to come, of files or of processes.

In
    A ``Committee`` (or one surrogate, for the paper's path), pending points, fixed coordinates, the incumbents, what is
    excluded (must not be suggested), and an ``Engine``.

Out
    ``Found``: a point, its score and the source of the proposal it came from. ``MaxSumProposal`` and, on the paper's
    path, ``Suggestion``: a point with the certificate of its final grid (value, upper bound, gap).

One ask by a joint score (``SearchOptions(score="joint")``, the default), in order
    ``initial``          scrambled Sobol points, until enough evaluations are known
    ``maxsum_proposal``  the maximiser of the factors' bounds on grids, with its certificate: one proposal among others
    ``sample_proposal``  the maximiser of a function drawn from the posterior of small factors (Thompson sampling)
    ``decision``         which score the ask maximises: the portfolio, in one place
    ``proposals``        points over the whole space and around the incumbents
    ``joint_search``     scores all proposals, polishes the best few, takes the best that is not excluded
    ``exchange``         the polish of discrete coordinates
    ``excluded``         points that must not be suggested: evaluated, pending, or against a known constraint
    ``draws``            all points of a finite space, or random ones until it counts as exhausted

One ask by the factors' bounds (``score="factors"``, as in the paper)
    ``grids``            a base grid over the whole domain within a budget of work; which factors can have tables
    ``engine``           the Engine protocol: who builds the tables and maximises them; LocalEngine does both here
    ``grid_search``      base grid, then zooms around the maximiser that halve the spacing, then polish
    ``polish``           gradient ascent in the continuous coordinates, free or within known constraints

Sources of a point (``info.source``)
    "initial design", "max-sum" (certified where polish and exchange left the proposal as it was), "sample", "incumbent"
    (from around one of the best points), "spread" (from all over the space).

What decided (``info.acquisition``)
    "improvement", "bound", "feasibility": scores of the committee. "factors": the sum of the factors' bounds.

Polish and exchange never lower the score, a known constraint is never broken, and a point is never suggested twice
unless values are noisy. Random numbers come from the seed and the history alone. An engine may keep solves of a grid
that comes back with the next ask; ``Engine.prepare`` brings it to the same state after a resume.
"""
