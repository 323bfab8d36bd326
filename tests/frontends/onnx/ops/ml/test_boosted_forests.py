"""Forests of XGBoost and LightGBM as onnxmltools writes them, against what trained them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

pytest.importorskip("lightgbm")
pytest.importorskip("onnxmltools")
pytest.importorskip("xgboost")

import lightgbm
import xgboost
from onnxmltools import convert_lightgbm, convert_xgboost
from onnxmltools.convert.common.data_types import FloatTensorType

from tests.support.trained_forests import FEATURES, classes, converting, run, samples


@pytest.fixture(autouse=True)
def conversions() -> Iterator[None]:
    with converting():
        yield


INPUTS = [("x", FloatTensorType([None, FEATURES]))]
BOOSTED: dict[str, tuple[Callable[..., Any], Callable[[], Any]]] = {
    "xgboost": (convert_xgboost, lambda: xgboost.XGBClassifier(n_estimators=8, max_depth=4, n_jobs=1)),
    "lightgbm": (
        lambda m, **more: convert_lightgbm(m, zipmap=False, **more),
        lambda: lightgbm.LGBMClassifier(n_estimators=8, verbose=-1, n_jobs=1),
    ),
}


@pytest.mark.parametrize("count", [2, 3])
@pytest.mark.parametrize("name", BOOSTED)
def test_boosted_classifiers(name: str, count: int) -> None:
    convert, make = BOOSTED[name]
    x, unseen = samples(300, 0, nan=True), samples(41, 1, nan=True)
    estimator = make().fit(x, classes(x, count))
    labels, shares = run(convert(estimator, initial_types=INPUTS), unseen)
    np.testing.assert_allclose(shares, estimator.predict_proba(unseen), rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(labels, estimator.predict(unseen))


@pytest.mark.parametrize("name", BOOSTED)
def test_boosted_regressors(name: str) -> None:
    x, unseen = samples(300, 0, nan=True), samples(41, 1, nan=True)
    kinds: dict[str, Any] = {
        "xgboost": xgboost.XGBRegressor(n_estimators=8, max_depth=4, n_jobs=1),
        "lightgbm": lightgbm.LGBMRegressor(n_estimators=8, verbose=-1, n_jobs=1),
    }
    estimator = kinds[name].fit(x, classes(x, 9) + np.nan_to_num(x[:, 4]))
    convert = {"xgboost": convert_xgboost, "lightgbm": convert_lightgbm}[name]
    (found,) = run(convert(estimator, initial_types=INPUTS), unseen)
    np.testing.assert_allclose(found.reshape(-1), estimator.predict(unseen), rtol=1e-4, atol=1e-5)
