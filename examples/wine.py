"""The objective of wine.yaml: cross-entropy of gradient boosting on scikit-learn's wine data.

``dechbo optimize examples/wine.yaml`` tunes it; ``python examples/wine.py`` shows the loss of untuned settings.
"""

from __future__ import annotations

from sklearn.datasets import load_wine
from sklearn.decomposition import PCA
from sklearn.ensemble import GradientBoostingClassifier
from sklearn.model_selection import StratifiedKFold, cross_val_score
from sklearn.pipeline import make_pipeline, make_union
from sklearn.preprocessing import StandardScaler

X, y = load_wine(return_X_y=True)
SPLITS = StratifiedKFold(3, shuffle=True, random_state=0)


def loss(*, features="raw", init="prior", **settings):
    model = GradientBoostingClassifier(init=None if init == "prior" else "zero", random_state=0, **settings)
    turned = make_pipeline(StandardScaler(), PCA())
    before = {"raw": "passthrough", "turned": turned, "both": make_union("passthrough", turned)}[features]
    return -cross_val_score(make_pipeline(before, model), X, y, cv=SPLITS, scoring="neg_log_loss").mean()


if __name__ == "__main__":
    print("cross-entropy of held-out wines, lower is better")
    print(f"scikit-learn's defaults           {loss():.3f}")
    print(f"twice as many, half as long steps {loss(learning_rate=0.05, n_estimators=200):.3f}")
    print(f"a third of the features per split {loss(max_features=0.33):.3f}")
