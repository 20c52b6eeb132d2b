"""Public names of the package, read by `lazy_loader`, type checkers and editors."""

from .carry_over import CarryOver as CarryOver
from .models import ModelFiles as ModelFiles, coverage as coverage
from .algorithms import RescoreOptions as RescoreOptions
from .prompts import Prompts as Prompts
from .utterances import RescoreReport as RescoreReport
from .rescorer import Rescorer as Rescorer
from .run import iterate as iterate, rescore as rescore
from .session import Partial as Partial, Session as Session, StreamOptions as StreamOptions
