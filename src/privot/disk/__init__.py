"""What is spent, on the disk: ledgers of one plan each, and accounts of runs on the same records."""

from privot.errors import naming_extra

with naming_extra("privot.disk"):
    from privot.disk.accounts import Account, RepeatedRecords, Run, accounts, charge, fingerprint
    from privot.disk.chain import adopt
    from privot.disk.ledger import BudgetExhausted, Countable, Ledger

__all__ = [
    "Account",
    "BudgetExhausted",
    "Countable",
    "Ledger",
    "RepeatedRecords",
    "Run",
    "accounts",
    "adopt",
    "charge",
    "fingerprint",
]
