"""The error of a run with numbers that are not finite."""

from cacr.errors import UserError
from cacr.runs.folder import RunFolder
from cacr.shell import shell_words
from cacr.training.building.checkpoints import list_checkpoints


class DivergedError(UserError):
    """A number of the run is no longer finite; ``what`` says which."""

    def __init__(self, run: RunFolder, step: int, what: str) -> None:
        self.what = what
        kept = list_checkpoints(run.checkpoints)
        saved = (
            f"the checkpoint of step {kept[-1][0]} is kept" if kept else "no checkpoint had been written yet"
        )
        init = shell_words("--init", run.path)
        again = f"Start again, with {init} to keep what was learned, and try" if kept else "Try"
        super().__init__(
            f"at step {step} {what}; {saved}.\n{again} a lower --lr, a longer warm-up (--set warmup_epochs=...), "
            "clipping (--set clip_grad=1) or --precision float32"
        )
