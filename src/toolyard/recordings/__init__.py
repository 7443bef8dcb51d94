"""Recordings of a run's traffic with its servers and its model: made, read, replayed and compared.

`format` has the lines of a recording and the file that they are in, `secrets` removes what must not be in
it, `recorder` writes the traffic as it passes, `matching` finds the recorded call for another, `replayer`
answers in the place of servers and models, and `comparison` says how two runs differ. Imports nothing by
itself, so that the pytest plugin is loaded fast.
"""
