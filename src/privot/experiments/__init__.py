"""One recipe a table or figure. Recipes write results; they never assert."""
