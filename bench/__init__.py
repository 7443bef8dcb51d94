"""The benchmark behind `make bench`: what a call, an import and an idle session cost.

Every figure is CPU time or private memory of the process under test, never wall time, and every
ratio is between figures of one run. Run it with `python -m bench`; see `bench/__main__.py`.
"""
