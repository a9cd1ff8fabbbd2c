"""Figure A7: linear accuracy against epochs, by a probe every ten epochs.

Claim: CACR learns faster, and ends above the other objectives. The paper prints curves without numbers. ``mini`` has
five probes: at its start, at three quarters of its steps and at its end.
"""

from dataclasses import replace

from cacr.ledger.item import Claim, Item, add
from cacr.ledger.items._small import CACR_4, CMC, NEEDS, SIX, small_columns
from cacr.ledger.scales import STEPS

add(
    Item(
        "figureA7",
        "linear accuracy against epochs",
        tuple(
            replace(
                row,
                paper={**row.paper, "probe_every_epochs": 10},
                settings={**row.settings, "probe_every_steps": STEPS // 4},
            )
            for row in SIX
        ),
        small_columns("cifar10", "cifar100", "stl10"),
        claims=(
            Claim.above(
                "In the last probe CACR with four positives is above CMC.",
                (CACR_4.name, "CIFAR-10"),
                (CMC.name, "CIFAR-10"),
                curve="probe",
            ),
        ),
        needs=NEEDS,
        curves=("probe",),
    )
)
