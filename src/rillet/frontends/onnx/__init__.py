"""The ONNX frontend: models become the tensor form, straight to linalg/tensor/arith/math/scf.

``model.py`` is its face, ``loader.py`` reads, ``importer.py`` walks the graph, ``ops/`` has the importers, one op
family per file.
"""
