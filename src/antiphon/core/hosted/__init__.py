"""What the tools that the gateway runs look like to the client and to the model. `rows` has a row for each."""
