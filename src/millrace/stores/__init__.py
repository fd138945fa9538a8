"""Where coordinators keep what they must not forget."""
