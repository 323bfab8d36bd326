"""Models of scikit-learn as skl2onnx writes them, against scikit-learn itself and ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest

pytest.importorskip("sklearn")
pytest.importorskip("skl2onnx")

from skl2onnx import convert_sklearn
from skl2onnx.common.data_types import DoubleTensorType, FloatTensorType, Int64TensorType, StringTensorType
from sklearn.calibration import CalibratedClassifierCV
from sklearn.cluster import KMeans
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA
from sklearn.ensemble import IsolationForest, VotingClassifier
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB, MultinomialNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    KBinsDiscretizer,
    LabelBinarizer,
    MinMaxScaler,
    OneHotEncoder,
    OrdinalEncoder,
    StandardScaler,
)
from sklearn.svm import SVC, SVR, LinearSVC

import rillet

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 4)).astype(np.float32)
CLASSES = np.digitize(X[:, 0] + 0.3 * RNG.normal(size=60), [-0.5, 0.5])
NAMES = np.array(["rose", "ivy", "fern"], dtype=object)[CLASSES]
TARGETS = X @ [1.0, 2.0, -1.0, 0.5] + 0.1 * RNG.normal(size=60)
# Every conversion targets opsets of its own, so that a newer converter writes the same.
OPSETS = {"": 21, "ai.onnx.ml": 3}


def converted(model: Any, types: Any, **options: Any) -> onnx.ModelProto:
    return convert_sklearn(model, initial_types=types, target_opset=OPSETS, options=options or None)


def outputs(proto: onnx.ModelProto, feeds: dict[str, np.ndarray]) -> list[Any]:
    """Rillet's outputs, which have the types and shapes of ONNX Runtime's."""
    import onnxruntime

    settings = onnxruntime.SessionOptions()
    settings.log_severity_level = 4
    session = onnxruntime.InferenceSession(proto.SerializeToString(), settings)
    found = list(rillet.compile(proto, jobs=1, threads=1).run(feeds).values())
    for got, want in zip(found, session.run(None, feeds), strict=True):
        if isinstance(want, np.ndarray):
            assert (got.dtype, got.shape) == (want.dtype, want.shape)
        else:
            assert [row.keys() for row in got] == [row.keys() for row in want]
    return found


def test_probabilities_by_name() -> None:
    """String labels, and maps of them to probabilities."""
    model = make_pipeline(StandardScaler(), LogisticRegression()).fit(X, NAMES)
    label, maps = outputs(converted(model, [("x", FloatTensorType([None, 4]))]), {"x": X})
    assert label.tolist() == model.predict(X).tolist()
    table = [[row[name] for name in model.classes_] for row in maps]
    np.testing.assert_allclose(table, model.predict_proba(X), rtol=1e-4, atol=1e-5)


def test_columns_of_several_types() -> None:
    """Missing numbers are imputed, strings and integers become columns of their own."""
    import pandas

    table = pandas.DataFrame({"a": X[:, 0], "b": X[:, 1], "kind": NAMES, "size": CLASSES % 2})
    table.loc[::7, "a"] = np.nan
    numbers = make_pipeline(SimpleImputer(), MinMaxScaler())
    columns = ColumnTransformer(
        [
            ("n", numbers, ["a", "b"]),
            ("s", OneHotEncoder(handle_unknown="ignore"), ["kind"]),
            ("i", OrdinalEncoder(), ["size"]),
        ]
    )
    model = make_pipeline(columns, LogisticRegression()).fit(table, CLASSES)
    types = [(n, FloatTensorType([None, 1])) for n in "ab"]
    types += [("kind", StringTensorType([None, 1])), ("size", Int64TensorType([None, 1]))]
    feeds = {name: table[[name]].to_numpy() for name in table}
    label, scores = outputs(converted(model, types, zipmap=False), feeds)
    np.testing.assert_array_equal(label, model.predict(table))
    np.testing.assert_allclose(scores, model.predict_proba(table), rtol=1e-4, atol=1e-5)


CLASSIFIERS = {
    "svc": SVC(probability=True, random_state=0),
    "nearest neighbours": KNeighborsClassifier(3),
    "multinomial": make_pipeline(MinMaxScaler(), MultinomialNB()),
    "calibrated": CalibratedClassifierCV(LinearSVC(), cv=2),
    "voting": VotingClassifier(
        [("n", MLPClassifier((4,), max_iter=20, random_state=0)), ("b", GaussianNB())],
        voting="soft",
        flatten_transform=False,
    ),
}


@pytest.mark.parametrize("name", CLASSIFIERS)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning", "ignore::FutureWarning")
def test_classifiers(name: str) -> None:
    model = CLASSIFIERS[name].fit(X, CLASSES)
    label, scores = outputs(converted(model, [("x", FloatTensorType([None, 4]))], zipmap=False), {"x": X})
    np.testing.assert_array_equal(label, model.predict(X))
    if hasattr(model, "predict_proba"):
        np.testing.assert_allclose(scores, model.predict_proba(X), rtol=1e-4, atol=1e-5)


REGRESSORS = {
    "svr": make_pipeline(StandardScaler(), PCA(3), SVR()),
    "bins": make_pipeline(KBinsDiscretizer(3, encode="onehot-dense"), SVR(kernel="linear")),
}


@pytest.mark.parametrize("name", REGRESSORS)
@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::UserWarning")
def test_regressors(name: str) -> None:
    model = REGRESSORS[name].fit(X, TARGETS)
    (found,) = outputs(converted(model, [("x", FloatTensorType([None, 4]))]), {"x": X})
    np.testing.assert_allclose(found[:, 0], model.predict(X), rtol=1e-3, atol=1e-4)


def test_doubles() -> None:
    wide = X.astype(np.float64)
    model = make_pipeline(StandardScaler(), GaussianProcessRegressor(RBF(2.0), alpha=0.1, optimizer=None)).fit(
        wide, TARGETS
    )
    (found,) = outputs(converted(model, [("x", DoubleTensorType([None, 4]))]), {"x": wide})
    np.testing.assert_allclose(found[:, 0], model.predict(wide), rtol=1e-9, atol=1e-9)


def test_groups_and_outliers() -> None:
    groups = KMeans(3, n_init=1, random_state=0).fit(X)
    label, distances = outputs(converted(groups, [("x", FloatTensorType([None, 4]))]), {"x": X})
    np.testing.assert_array_equal(label, groups.predict(X))
    np.testing.assert_allclose(distances, groups.transform(X), rtol=1e-3, atol=1e-4)
    forest = IsolationForest(n_estimators=2, random_state=0).fit(X)
    label, score = outputs(converted(forest, [("x", FloatTensorType([None, 4]))]), {"x": X})
    np.testing.assert_array_equal(label[:, 0], forest.predict(X))
    np.testing.assert_allclose(score[:, 0], forest.decision_function(X), rtol=1e-4, atol=1e-5)


def test_labels_as_columns() -> None:
    model = LabelBinarizer().fit(CLASSES)
    (found,) = outputs(converted(model, [("x", Int64TensorType([None]))]), {"x": CLASSES})
    np.testing.assert_array_equal(found, model.transform(CLASSES))
