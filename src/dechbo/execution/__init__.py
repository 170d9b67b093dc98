"""The execution room."""
