"""The benchmark behind `make faults`: how long calls take while another upstream misbehaves.

The rows are those of the fault matrix in `tests/faults`, which holds what must be true on any machine. Here
is what depends on the machine: the p99 of calls to good upstreams, in a quiet time and during the fault, in
one run. A second gateway, the twin, has the same good upstreams and none of the faulty ones; it is called in
turn with the first, so that what the machine does to any gateway in those seconds can be told from what the
fault does to this one.
"""
