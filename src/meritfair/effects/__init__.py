"""Whether pulls help: the effect of a pull on the next state, from a log of draws with known chances."""

from meritfair.effects.estimate import effect
from meritfair.effects.report import Effect, EffectTable
from meritfair.effects.sensitivity import EffectSensitivity
from meritfair.effects.together import Together
from meritfair.effects.trial import LeftOut, Missing

__all__ = ["Effect", "EffectSensitivity", "EffectTable", "LeftOut", "Missing", "Together", "effect"]
