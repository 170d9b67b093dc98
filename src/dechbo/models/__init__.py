"""What an ask believes: a committee of models of the objective, one of each constraint, and when they are refitted.

The room owns the choice of models and their weights. It knows Gaussian processes (``gp``) and structure learning
(``structure``); it knows nothing of acquisition functions, grids or searches.

In
    A space, a graph ("learned", "random" or given), a seed, ``ModelOptions``, and the evaluations of a history.

Out
    ``Committee``         members with stacked weights, the data in standard units where larger is better, the way back
                          to the user's units (``ValueScale``), and one such committee per constraint told
    ``CommitteeBuilder``  evaluations -> Committee and the ``Fits`` behind it, which only save work: from empty ones the
                          same committee comes, bit for bit
    ``Model``             for ``score="factors"`` and for ``interactions``: one surrogate, an ensemble over sampled
                          graphs where the graph is learned
    ``ModelBuilder``      evaluations -> Model: pure, the same arguments give the same model bit for bit
    ``RefitSchedule``     which Model goes with which ask, and those replayed on the way to it after a resume

Members (``ModelOptions(members=…)``)
    "smooth" and "rough" have small factors on the learned, random or given graph; "whole", "scaled" and "sparse" have
    one factor over all variables, with different lengthscales. ``members`` says what each bets on; ``committee`` how
    their predictions weigh them; ``warp`` how values far below the best are compressed where the evidence asks for it.

Refits of a committee
    - A cold fit is made from a prefix of the evaluations whose length depends on their number alone; every ask refits
      it to all evaluations.
    - A graph is learned from such a prefix too, each time the evaluations have doubled, for the next cold fit.
    - What a cold fit had predicted for the values after it weighs the members. A resume repeats the last three cold
      fits, and learns the graphs that they were made with.

Refits of a Model
    - Ask number 0, 10, 20, ... fits it cold: structure learning and two starts of every MAP fit, from the seed, the
      index of the ask and the evaluations alone.
    - Between them a warm refit is due once the observations have grown by a twentieth, or at once if a value lies 100
      standard deviations away. Otherwise hyperparameters and units stay, and only the data grow.
    - A resumed run replays at most nine asks and arrives at the same model. What was replayed is returned, so that
      a cache that lives between asks (an engine) can follow the same steps.

Failed evaluations never enter a model as numbers. Pending points are not part of a model either: a decision conditions
the posteriors' deviations on them and keeps their means.
"""
