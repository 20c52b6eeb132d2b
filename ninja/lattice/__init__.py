"""Lattices and their attributes: symbol tables, times, n-best lists."""

from ninja.lattice.lattice import SLOTS, Array, Kind, Lattice, Scales, check
from ninja.lattice.symbols import SymbolTable

__all__ = ["SLOTS", "Array", "Kind", "Lattice", "Scales", "SymbolTable", "check"]
