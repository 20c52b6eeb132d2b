"""The names of the package: `lazy_loader` imports them as this file says, and type checkers and editors read it."""

from .recipe import Progress as Progress, Trained as Trained, TrainOptions as TrainOptions
