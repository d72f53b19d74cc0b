"""Recipes and rivals: one recipe a table or figure. Recipes write results; they never assert."""
