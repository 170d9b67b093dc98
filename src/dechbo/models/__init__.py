"""What an ask believes: a model of the objective, one of each constraint, and when they are refitted.

The room owns the choice of surrogates. It knows Gaussian processes (``gp``) and structure learning (``structure``); it
knows nothing of acquisition functions, grids or searches.

In
    A space, a graph ("learned", "random" or given), a seed, ``ModelOptions``, and the evaluations of a history.

Out
    ``Model``          a surrogate conditioned on standardised values where larger is better, the way back to the
                       user's units, the result of structure learning, and one such model per constraint
    ``ModelBuilder``   evaluations -> Model: pure, the same arguments give the same model bit for bit
    ``RefitSchedule``  which model goes with which ask, and the models replayed on the way to it after a resume

Members
    With a learned graph the surrogate is an ensemble: one additive GP for each sampled graph, weighted by how often the
    chains visited it, and, where evidence and leave-one-out prediction ask for it, one GP whose single factor holds all
    variables. With a given or random graph there is one additive GP.

Refits
    - Ask number 0, 10, 20, ... fits its model cold: structure learning and two starts of every MAP fit, from the seed,
      the index of the ask and the evaluations alone.
    - Between them a warm refit is due once the observations have grown by a twentieth, or at once if a value lies 100
      standard deviations away. Otherwise hyperparameters and units stay, and only the data grow.
    - A resumed run replays at most nine asks and arrives at the same model. What was replayed is returned, so that
      a cache that lives between asks (an engine) can follow the same steps.

Failed evaluations never enter a model as numbers. Pending points are not part of a model either: the search conditions
the posterior's deviations on them and keeps its mean.
"""
