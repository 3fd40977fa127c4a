"""One release in many spellings; one function each."""
