"""Being here puts this folder on the path, so that the tests of every stage share its helpers."""
