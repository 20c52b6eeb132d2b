"""Public names of the package, read by `lazy_loader`, type checkers and editors."""

from .app import application as application
from .options import ServeOptions as ServeOptions
from .scorer import Scorer as Scorer
from .server import Listener as Listener, serve as serve, share_arena as share_arena
