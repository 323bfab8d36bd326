"""Frontends: sources become models, and models become programs in the tensor form.

``frontend`` says what a frontend and a model are, ``registry`` which there are; ``building`` is what they build with.
"""
