"""What is spent, on the disk: ledgers of one plan each, and accounts of runs on the same records."""

from privot.disk.accounts import Account, RepeatedRecords, Run, accounts, charge
from privot.disk.fingerprint import fingerprint
from privot.disk.ledger import BudgetExhausted, Countable, Ledger
from privot.disk.witness import adopt

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
