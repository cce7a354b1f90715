"""What the keys have used, as clients and the page of the inspector ask for it."""
