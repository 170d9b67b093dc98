"""The objective of boosting.yaml: cross-entropy of LightGBM on scikit-learn's handwritten digits.

``dechbo optimize examples/boosting.yaml`` tunes it; ``python examples/boosting.py`` shows the loss of untuned settings.
To adapt it, load your own X and y, and keep in the study file the parameters that you want to tune.
"""

from __future__ import annotations

from lightgbm import LGBMClassifier
from sklearn.datasets import load_digits
from sklearn.model_selection import StratifiedKFold, cross_val_score

X, y = load_digits(return_X_y=True)
SPLITS = StratifiedKFold(3, shuffle=True, random_state=0)
# One thread, and the same value for the same settings: run trials in parallel with dechbo's --workers instead.
FIXED = {"random_state": 0, "n_jobs": 1, "deterministic": True, "force_col_wise": True, "verbosity": -1}


def loss(**settings):
    """A parameter that is not there, such as drop_rate without dart, keeps LightGBM's default."""
    model = LGBMClassifier(subsample_freq=1, **FIXED, **settings)
    return -cross_val_score(model, X, y, cv=SPLITS, scoring="neg_log_loss").mean()


if __name__ == "__main__":
    print("cross-entropy of held-out digits, lower is better")
    print(f"LightGBM's defaults, 100 trees     {loss():.3f}")
    print(f"the same with 60 trees             {loss(n_estimators=60):.3f}")
    print(f"60 trees, a third of the pixels    {loss(n_estimators=60, colsample_bytree=0.33):.3f}")
