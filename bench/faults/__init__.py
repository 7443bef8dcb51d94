"""The benchmark behind `make faults`: how long calls take while another upstream misbehaves.

The rows are those of the fault matrix in `tests/faults`, which checks what must be true on any machine.
This measures what depends on the machine: the p99 of calls to good upstreams, in a quiet time and during
the fault, in one run. A second gateway, the control, has the same good upstreams and none of the faulty
ones. It is called in turn with the first, to tell effects of the machine from effects of the fault.
"""
