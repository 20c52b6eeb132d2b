"""Public names of the package, read by `lazy_loader`, type checkers and editors."""

from .recipe import Progress as Progress, Trained as Trained, TrainOptions as TrainOptions
