"""DecHBOSearchCV in place of RandomizedSearchCV: a pipeline with seven mixed parameters, tuned in 40 candidates."""

from sklearn.datasets import load_breast_cancer
from sklearn.decomposition import PCA
from sklearn.model_selection import train_test_split
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import MinMaxScaler, RobustScaler, StandardScaler
from sklearn.svm import SVC

from dechbo import Float
from dechbo.integrations.sklearn import DecHBOSearchCV

pipeline = Pipeline([("scale", None), ("reduce", PCA()), ("model", SVC())])
space = {
    "scale": [None, StandardScaler(), MinMaxScaler(), RobustScaler()],  # a list: choices of any type
    "reduce__n_components": (2, 30),  # a pair of whole numbers: an integer range
    "reduce__whiten": [True, False],
    "model__C": Float(1e-3, 1e3, log=True),
    "model__gamma": Float(1e-5, 10, log=True),
    "model__kernel": ["rbf", "sigmoid"],
    "model__class_weight": [None, "balanced"],
}

if __name__ == "__main__":
    X, y = load_breast_cancer(return_X_y=True)
    X, X_test, y, y_test = train_test_split(X, y, random_state=0, stratify=y)
    search = DecHBOSearchCV(pipeline, space, n_iter=40, cv=3, random_state=0)
    search.fit(X, y)
    print(f"cross-validated accuracy {search.best_score_:.4f}, on the test set {search.score(X_test, y_test):.4f}")
    for name, value in search.best_params_.items():
        print(f"  {name} = {value}")
    for found in search.interactions_[:3]:
        names, share = " and ".join(found.scope), found.share
        print(f"{names} interact: probability {found.probability:.2f}, {share:.0%} of the variance")
