"""The model of the paper: arms, benefit, merit, confidence, exposure, draws, theory."""
