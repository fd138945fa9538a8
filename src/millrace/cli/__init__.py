"""The command line: commands compute, views print."""
