"""Instructions that sum products of 8-bit integers: ``products_of`` chooses, ``DotProducts`` is what each can do."""

from rillet.codegen.cpu.dot_products.products import DotProducts, products_of

__all__ = ["DotProducts", "products_of"]
