"""Public names of the package, read by `lazy_loader`, type checkers and editors."""

from . import (
    consensus as consensus,
    context as context,
    decoding as decoding,
    evaluate as evaluate,
    formats as formats,
    graph as graph,
    lm as lm,
    openfst as openfst,
    pipeline as pipeline,
    rescoring as rescoring,
    serve as serve,
    show as show,
    train as train,
    tune as tune,
)
from .context.correction.stage import Correcting as Correcting, Correction as Correction, correct as correct
from .decoding import from_ctc as from_ctc
from .errors import (
    BusyError as BusyError,
    ClosedError as ClosedError,
    DependencyError as DependencyError,
    FormatError as FormatError,
    InputError as InputError,
    LatticeError as LatticeError,
    ModelError as ModelError,
    NinjaError as NinjaError,
    OptionError as OptionError,
    OutputError as OutputError,
    SymbolError as SymbolError,
    TableError as TableError,
    VocabularyError as VocabularyError,
    WorkerError as WorkerError,
)
from .graph.windows import Windows as Windows, stitch as stitch
from .io import (
    ChosenScales as ChosenScales,
    find_scales as find_scales,
    keys as keys,
    read as read,
    vocabulary as vocabulary,
    write as write,
)
from .io.memory import from_k2 as from_k2, from_nbest as from_nbest, to_k2 as to_k2
from .lattice import Lattice as Lattice, Scales as Scales, SymbolTable as SymbolTable
from .rescoring import (
    RescoreOptions as RescoreOptions,
    Rescorer as Rescorer,
    RescoreReport as RescoreReport,
    coverage as coverage,
    rescore as rescore,
)

__version__: str
BIN_DIR: str
