"""Evals: tasks with checks, run by an agent again and again, so that two configurations can be compared."""

from .cases import EvalCase, EvalFileError, EvalSuite, load_suite
from .evaluation import EvalAttempt, EvalSetting, evaluate
from .report import EvalReport, compare_reports

__all__ = [
    "EvalAttempt",
    "EvalCase",
    "EvalFileError",
    "EvalReport",
    "EvalSetting",
    "EvalSuite",
    "compare_reports",
    "evaluate",
    "load_suite",
]
