"""The tensor builder: how a frontend makes a program in the tensor form. It belongs to no frontend.

``main_function`` begins a program, ``builder`` computes with tensors, ``scalars`` and ``conversions`` with their
elements, ``extent_arithmetic`` with sizes.
"""
