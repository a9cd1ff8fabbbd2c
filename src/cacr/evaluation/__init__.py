"""Measure how good features are: protocols, baselines, and results with everything that they depend on."""

from cacr.evaluation import protocols  # noqa: F401  (they register themselves)
from cacr.evaluation.baselines import BASELINES
from cacr.evaluation.data.sets import TransferSet, is_suite, transfer_sets
from cacr.evaluation.data.task import Task
from cacr.evaluation.detection.recipes import DETECTION_RECIPES
from cacr.evaluation.evaluate import evaluate, evaluate_run
from cacr.evaluation.registry import PROTOCOLS, Score, settings_of
from cacr.evaluation.results.comparison import Comparison, Group, Line, compare_runs, write_comparison
from cacr.evaluation.results.metrics import METRICS
from cacr.evaluation.results.suite_report import Failure, SuiteReport
from cacr.evaluation.suite import evaluate_suite
from cacr.runs.result import Result, read_results, write_result

__all__ = [
    "BASELINES",
    "DETECTION_RECIPES",
    "METRICS",
    "PROTOCOLS",
    "Comparison",
    "Failure",
    "Group",
    "Line",
    "Result",
    "Score",
    "SuiteReport",
    "Task",
    "TransferSet",
    "compare_runs",
    "evaluate",
    "evaluate_run",
    "evaluate_suite",
    "is_suite",
    "read_results",
    "settings_of",
    "transfer_sets",
    "write_comparison",
    "write_result",
]
