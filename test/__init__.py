"""The tests, as a package so that `python -m test.fuzz` finds ours and not Python's own `test`."""
