"""What each key uses: counted once, for the store, the metrics and the budgets."""
