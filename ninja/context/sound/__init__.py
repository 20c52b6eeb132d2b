"""How phrases sound: pronunciations, confusions, and arcs for phrases that sound like what was recognised."""
