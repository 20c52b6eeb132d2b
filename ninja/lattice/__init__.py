"""Lattices and their attributes: symbol tables, times, n-best lists."""

from ninja.lattice.arrays import Array
from ninja.lattice.lattice import SLOTS, Kind, Lattice, Scales, check
from ninja.lattice.symbols import SymbolTable

__all__ = ["SLOTS", "Array", "Kind", "Lattice", "Scales", "SymbolTable", "check"]
