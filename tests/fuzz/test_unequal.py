"""Sizes that do not fit are refused, whatever stands for a name of a dimension. See ``tests.fuzz.unequal``."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import rillet

from . import unequal

pytest.importorskip("onnxruntime")

# Ops that relate their operands otherwise than by the loops of one structured op.
_NAMES = (
    "affine_grid_2d|attention_4d_attn_mask_3d|basic_deform_conv_without_padding|col2im|concat_2d_axis_0|"
    "dequantizelinear_axis|einsum_batch_diagonal|gathernd_example_int32_batch_dim1|gemm_default_vector_bias|"
    "gridsample_aligncorners_true|linear_attention_decode_step|matmul_3d|maxunpool_export_without_output_shape|"
    "nllloss_NC|prelu_broadcast|reversesequence_batch|rotary_embedding_with_rotary_dim|scan_sum|swiglu"
)


def test_node_tests_on_sizes_that_do_not_fit() -> None:
    cases = list(unequal.cases(f"^test_({_NAMES})$"))
    assert len(cases) == _NAMES.count("|") + 1
    found = {name: unequal.findings(model, feeds) for name, model, feeds in cases}
    assert not {name: wrong for name, wrong in found.items() if wrong is None}
    assert not {name: wrong for name, wrong in found.items() if wrong}


@pytest.mark.parametrize("name", unequal.PLACEHOLDERS)
def test_a_placeholder_says_nothing_of_sizes(name: str) -> None:
    text = """<ir_version: 8, opset_import: ["" : 17]> g (float[N,N] x, float[N,N] y) => (float[N,N] z)
    { t = Transpose<perm = [1, 0]>(x)  z = Add(t, y) }"""
    model = onnx.parser.parse_model(text)
    for info in (*model.graph.input, *model.graph.output):
        for dim in info.type.tensor_type.shape.dim:
            dim.dim_param = name
    module = rillet.compile(model, threads=1, jobs=1)
    assert [spec.shape for spec in module.inputs] == [("x_0", "x_1"), ("y_0", "y_1")]
    x, y = np.arange(6, dtype=np.float32).reshape(2, 3), np.ones((3, 2), np.float32)
    np.testing.assert_array_equal(module(x, y), x.T + y)
    np.testing.assert_array_equal(module(x, y[:1]), x.T + y[:1])
    with pytest.raises(rillet.RunError, match="node 'Add_2': dimensions 2 and 3 do not broadcast"):
        module(x, np.ones((3, 3), np.float32))
