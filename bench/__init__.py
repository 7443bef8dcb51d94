"""The benchmark behind `make bench`: what the kit costs beside the SDK, and the gateway beside its peers.

Costs are CPU time and memory of the processes under test, and every ratio is between figures of one
run. Wall time is shown where it is asked for (calls per second, the first list after a restart) and
depends on what else the machine does. Run it with `python -m bench`; see `bench/__main__.py`.
"""
