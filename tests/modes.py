"""Programs that are bound by the modes of files, whoever runs the tests: those do not bind root."""

import ctypes
import os

_DROP_FROM_BOUNDING_SET = 24  # of prctl(2)
_MAY_WRITE_AND_READ_ALL = (1, 2)  # CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH of capabilities(7)


def obey_modes() -> None:
    """For `preexec_fn`: what is started then has no more rights to a file than its owner, group or others."""
    if os.geteuid() == 0:
        for capability in _MAY_WRITE_AND_READ_ALL:
            if ctypes.CDLL(None).prctl(_DROP_FROM_BOUNDING_SET, capability, 0, 0, 0):
                raise OSError("root cannot give up its rights to files here")
