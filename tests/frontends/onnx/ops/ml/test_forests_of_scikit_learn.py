"""Forests of scikit-learn as skl2onnx writes them, against scikit-learn itself."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from onnx import TensorProto

pytest.importorskip("sklearn")
pytest.importorskip("skl2onnx")

from skl2onnx import to_onnx
from sklearn import ensemble, tree

from tests.support.trained_forests import classes, converting, run, samples


@pytest.fixture(autouse=True)
def conversions() -> Iterator[None]:
    with converting():
        yield


OPSETS = {"": 18, "ai.onnx.ml": 3}
CLASSIFIERS = {
    "random forest": (ensemble.RandomForestClassifier(12, max_depth=6, random_state=0), 2),
    "random forest of many classes": (ensemble.RandomForestClassifier(8, random_state=0), 5),
    "gradient boosting": (ensemble.GradientBoostingClassifier(n_estimators=12, random_state=0), 2),
    "histogram boosting": (ensemble.HistGradientBoostingClassifier(max_iter=10, random_state=0), 2),
    "histogram boosting of many classes": (ensemble.HistGradientBoostingClassifier(max_iter=5, random_state=0), 3),
    "tree": (tree.DecisionTreeClassifier(random_state=0), 3),
}


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_classifiers_of_scikit_learn(name: str) -> None:
    estimator, count = CLASSIFIERS[name]
    nan = name.startswith("histogram")
    x, unseen = samples(300, 0, nan), samples(41, 1, nan)
    estimator.fit(x, classes(x, count))
    model = to_onnx(estimator, x[:1], options={"zipmap": False}, target_opset=OPSETS)
    labels, shares = run(model, unseen)
    np.testing.assert_allclose(shares, estimator.predict_proba(unseen), rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(labels, estimator.predict(unseen))


def test_labels_that_are_strings() -> None:
    x, unseen = samples(300, 0), samples(41, 1)
    estimator = ensemble.RandomForestClassifier(6, max_depth=5, random_state=0)
    estimator.fit(x, np.array(["red", "green", "blue"])[classes(x, 3)])
    labels, _ = run(to_onnx(estimator, x[:1], options={"zipmap": False}, target_opset=OPSETS), unseen)
    assert labels.tolist() == estimator.predict(unseen).tolist()


REGRESSORS = {
    "random forest": ensemble.RandomForestRegressor(10, random_state=0),
    "extra trees": ensemble.ExtraTreesRegressor(6, max_depth=6, random_state=0),
    "gradient boosting": ensemble.GradientBoostingRegressor(n_estimators=12, random_state=0),
    "histogram boosting": ensemble.HistGradientBoostingRegressor(max_iter=10, random_state=0),
    "tree": tree.DecisionTreeRegressor(random_state=0),
}


@pytest.mark.parametrize(
    ("name", "dtype"), [*((name, np.float32) for name in REGRESSORS), ("random forest", np.float64)]
)
def test_regressors_of_scikit_learn(name: str, dtype: type) -> None:
    estimator = REGRESSORS[name]
    x, unseen = samples(300, 0).astype(dtype), samples(41, 1).astype(dtype)
    estimator.fit(x, classes(x, 9) + x[:, 4])
    model = to_onnx(estimator, x[:1], target_opset=OPSETS)
    model.graph.output[0].type.tensor_type.elem_type = TensorProto.FLOAT  # skl2onnx declares what goes in
    (found,) = run(model, unseen)
    np.testing.assert_allclose(found.reshape(-1), estimator.predict(unseen), rtol=1e-5, atol=1e-5)


def test_several_results_of_one_forest() -> None:
    x, unseen = samples(300, 0), samples(41, 1)
    estimator = ensemble.RandomForestRegressor(8, max_depth=6, random_state=0).fit(x, x[:, :3] ** 2)
    model = to_onnx(estimator, x[:1], target_opset=OPSETS)
    model.graph.output[0].type.tensor_type.ClearField("shape")  # skl2onnx declares one column
    (found,) = run(model, unseen)
    np.testing.assert_allclose(found, estimator.predict(unseen), rtol=1e-5, atol=1e-5)
