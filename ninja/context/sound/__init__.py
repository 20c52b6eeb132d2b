"""Sound of phrases: pronunciations, phone confusions, and arcs for phrases that sound like recognised words."""
