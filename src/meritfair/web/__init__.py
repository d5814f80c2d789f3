"""The server: the programme for a team, in the browser and over HTTP."""
