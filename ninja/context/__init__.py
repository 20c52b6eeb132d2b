"""Context: names, places and titles that matter to an utterance, given as lists at request time."""
