"""Ops that nothing here imports: which they are, and why."""

from __future__ import annotations

from collections.abc import Container
from typing import TYPE_CHECKING

from rillet.frontends.onnx import registry
from rillet.frontends.onnx.functions import domain_of, has_body
from rillet.frontends.onnx.steps import shape_arithmetic

if TYPE_CHECKING:
    import onnx


def is_known(proto: onnx.NodeProto, opset: int, functions: Container[tuple[str, str, str]]) -> bool:
    """Whether the op of a node can be imported at all; ``functions`` are the model's own."""
    domain = domain_of(proto)
    return bool(
        registry.lookup(domain, proto.op_type, opset)
        or registry.lookup(domain, proto.op_type, opset, strings=True)
        or (not domain and shape_arithmetic.has_rule(proto.op_type))
        or (proto.domain, proto.op_type, proto.overload) in functions
        or has_body(proto, opset)
    )


def why_unknown(proto: onnx.NodeProto, opset: int) -> tuple[str, str]:
    """Why the op of a node cannot be imported, and what to do."""
    import onnx

    domain = domain_of(proto)
    if not opset:
        return f"the model imports no opset for domain '{domain or 'ai.onnx'}'", "add it to opset_import"
    if onnx.defs.has(proto.op_type, domain):
        return _of_onnx(proto, domain, opset)
    what = f"domain '{domain}' is not known" if domain else "ONNX has no op of this name"
    if domain and registry.supported(domain):
        what = f"the op is not among those of domain '{domain}' that are known"
    if domain == "com.microsoft" and proto.op_type in ADVICE_OF_MICROSOFT:
        return what, ADVICE_OF_MICROSOFT[proto.op_type]
    if "quantize" in proto.op_type.lower() or proto.op_type.startswith("Q"):
        return (
            what,
            "quantize with QuantizeLinear and DequantizeLinear of ONNX (QDQ format; 4 bits from opset 21 on)",
        )
    for prefix, advice in _ADVICE.items():
        if domain.startswith(prefix):
            return what, advice
    return what, "export the model with standard ONNX ops, or with a function body for this op"


def _of_onnx(proto: onnx.NodeProto, domain: str, opset: int) -> tuple[str, str]:
    """The same for an op that ONNX has in some version."""
    ranges = registry.opsets(domain, proto.op_type)
    if not ranges:
        return "the op has no implementation", _ADVICE.get(domain, "compute it outside the model")
    first, last = ranges[0][0], ranges[-1][1]
    if first <= opset <= last:
        return "the op has no implementation for inputs of these types", "convert its inputs"
    of_domain = f" of domain '{domain}'" if domain else ""
    wanted = f"{first} or newer" if opset < first else f"{last} or older"
    return f"the op has no implementation for opset {opset}", f"convert the model to opset {wanted}{of_domain}"


# What to do about an op, by the beginning of its domain.
_ADVICE = {
    "ai.onnx.ml": "leave that step out of the export, and give the model the tensor that it makes",
    "ai.onnx.preview.training": "export the model for inference",
    "ai.onnx.training": "export the model for inference",
    "com.microsoft.nchwc": "use the model as it was before ONNX Runtime saved it optimized, for one processor",
    "com.microsoft": "use the model as it was before ONNX Runtime optimized it, or export it with standard ONNX ops",
    "com.ms": "the op is for ONNX Runtime's own kernels: use the model as it was before ONNX Runtime saved it",
}

_SEARCH = "export the decoder alone, and search outside the model"
_SEPARATE_BLOCKS = "quantize the weights in blocks with MatMulNBits, whose scales are separate"
_EXPERTS = "export each expert as MatMuls, with a mask of the experts chosen"

# The same for ops of ONNX Runtime's own domain that its quantizer and model builders write.
ADVICE_OF_MICROSOFT = {
    "BeamSearch": _SEARCH,
    "DecoderMaskedMultiHeadAttention": "export the decoder with MultiHeadAttention, where past and present are apart",
    "DecoderMaskedSelfAttention": "export the decoder with Attention, where past and present are apart",
    "GreedySearch": _SEARCH,
    "MatMulBnb4": _SEPARATE_BLOCKS,
    "MatMulFpQ4": _SEPARATE_BLOCKS,
    "MoE": _EXPERTS,
    "NhwcConv": "use the model as it was before its layout was changed to NHWC: Conv of ONNX",
    "NhwcFusedConv": "use the model as it was before its layout was changed to NHWC: Conv of ONNX",
    "PackedAttention": "export the model with Attention, and pad the sequences",
    "PackedMultiHeadAttention": "export the model with MultiHeadAttention, and pad the sequences",
    "PagedAttention": "export the model with GroupQueryAttention, whose past and present are tensors",
    "QMoE": _EXPERTS,
    "Sampling": _SEARCH,
    "SparseAttention": "export the model with GroupQueryAttention, or with an attention mask for the blocks",
    "Tokenizer": "split the text outside the model",
    "WhisperBeamSearch": _SEARCH,
}
