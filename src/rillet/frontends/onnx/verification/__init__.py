"""What ``rillet verify`` needs of ONNX models: two oracles, parts of models, and what quantizing nodes round."""
