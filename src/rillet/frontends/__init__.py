"""Frontends: sources become models, and models become programs in the tensor form.

``frontend`` defines frontends and models, ``registry`` lists the frontends, and ``building`` has the tensor builder
that they use.
"""
