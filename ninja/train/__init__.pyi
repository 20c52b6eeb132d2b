"""Public names of the package; `lazy_loader`, type checkers and editors read this file."""

from .recipe import Progress as Progress, Trained as Trained, TrainOptions as TrainOptions
