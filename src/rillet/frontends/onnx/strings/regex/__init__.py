"""Regular expressions in RE2's syntax as finite automata over the bytes of UTF-8, built at compile time.

``parser.py`` reads a pattern, ``automaton.py`` makes the table of a deterministic automaton of it.
"""
