import pytest

from rillet import targets
from rillet.errors import CompileError


@pytest.mark.parametrize("name", targets.names())
def test_every_description_loads(name):
    target = targets.get(name)
    assert target.name == name
    assert target.triple.startswith((target.arch, "thumb")) or target.arch in target.triple
    assert target.lanes(32) == max(1, target.vector_bits // 32)


def test_host_is_one_of_the_descriptions_refined():
    host = targets.get("host")
    assert host.name == "host"
    assert host.cpu
    assert host.l1d_bytes >= 8 * 1024


def test_features_are_written_as_llvm_expects_them():
    features = targets.get("x86-64-v4").llvm_features.split(",")
    assert "+avx512f" in features
    assert "-prefer-256-bit" in features


def test_unknown_target_lists_the_known_ones():
    with pytest.raises(CompileError, match=r"unknown target 'vax'; known targets: host, .*x86-64-v3"):
        targets.get("vax")
