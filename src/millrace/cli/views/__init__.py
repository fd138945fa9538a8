"""How results look: each view has a text form for people and a JSON form for programs."""
