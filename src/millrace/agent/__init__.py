"""The supervisor of a site: it is told what shall run there, makes it so and keeps it so."""
