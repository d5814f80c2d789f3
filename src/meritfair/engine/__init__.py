"""Arrays in, arrays out: the arithmetic of episodes, without checks and without words for people."""
