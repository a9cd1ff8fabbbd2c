"""One file per table; figures whose curves come from the same trainings share one."""

from cacr.ledger.items import (  # noqa: F401  (they register themselves)
    figures,
    table2,
    table3,
    table4,
    table5,
    table6,
    table7,
    tableA1,
    tableA2,
    tableA3,
    tableA4,
    tableA5,
    tableA6,
    tableA7,
    tableA8,
    tableA9,
    tableA10,
    tableA11,
    tableA12,
    tableA13,
)
