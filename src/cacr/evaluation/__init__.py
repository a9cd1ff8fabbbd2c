"""How good features are: protocols on a run, baselines beside it, results with everything they depend on."""

from cacr.evaluation import (  # noqa: F401  (they register themselves)
    cluster,
    elevater,
    elevater_finetune,
    finetune,
    linear_large,
    linear_paper,
    protocols,
    retrieval,
)
from cacr.evaluation.baselines import BASELINES
from cacr.evaluation.comparison import Comparison, Group, Line, compare_runs, write_comparison
from cacr.evaluation.embed import Embedded, embed, embed_source
from cacr.evaluation.evaluate import evaluate, evaluate_run
from cacr.evaluation.features import Features, encode
from cacr.evaluation.registry import PROTOCOLS, Score
from cacr.evaluation.search import Found, Neighbour, search_source
from cacr.evaluation.sets import TransferSet, is_suite, transfer_sets
from cacr.evaluation.suite import evaluate_suite
from cacr.evaluation.suite_report import Failure, SuiteReport, suite_table
from cacr.evaluation.task import Task
from cacr.runs.result import Result, read_results, results_table, write_result

__all__ = [
    "BASELINES",
    "PROTOCOLS",
    "Comparison",
    "Embedded",
    "Failure",
    "Features",
    "Found",
    "Group",
    "Line",
    "Neighbour",
    "Result",
    "Score",
    "SuiteReport",
    "Task",
    "TransferSet",
    "compare_runs",
    "embed",
    "embed_source",
    "encode",
    "evaluate",
    "evaluate_run",
    "evaluate_suite",
    "is_suite",
    "read_results",
    "results_table",
    "search_source",
    "suite_table",
    "transfer_sets",
    "write_comparison",
    "write_result",
]
