"""What a run knows: evaluations, pending points, and the file that keeps them.

The room owns the facts of a run. Nothing here fits, predicts or decides, and nothing here changes a number that a user
told.

In
    Parameters and values in the user's units, checked once at the edge (``Evaluation.of``): None, NaN and infinities
    become a failed evaluation, a noise variance is finite and at least 0, constraints are finite numbers. A space says
    which point of the unit cube each set of parameters is.

Out
    ``History``       every evaluation, every point asked for, the pending ones, the incumbent: what ``ask`` starts from
    ``Observations``  arrays X, y and noise of the successful evaluations: what a Gaussian process is conditioned on
    ``Standardisation``  y = shift + scale z, and back: models see z
    ``runfile``       one run as a JSON file, written whole or not at all
    ``csv``           tables of results with a header, read and checked

Invariants
    - Once told, never lost: an evaluation is only ever added, failed ones too, in the order of telling.
    - A point is pending from the ask that suggests it until its value is told or it is forgotten. ``History.external``
      holds pending points of other processes.
    - Each ask records how many evaluations it knew (``Asked.n_evaluations``). With the seed, that is all a resumed run
      needs to rebuild every model and to go on with the same suggestions, bit for bit.
    - Inside, everything lives in the unit cube and larger is better; ``optimizer`` converts signs and units.

History grows in place, because evaluations arrive one at a time and from several threads; everything else is frozen.
"""
