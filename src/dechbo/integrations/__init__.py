"""dechbo inside the tools that people already use; each folder or file here imports its own package."""
