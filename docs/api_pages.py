"""Pages of the API for the site, one per module: the names in `__all__`, with signatures and docstrings."""

from __future__ import annotations

import inspect
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

import ninja

if TYPE_CHECKING:
    from mkdocs.structure.files import Files


def modules() -> dict[str, list[str]]:
    """Return the public names of each public module, those of `ninja` without modules."""
    own_names = [name for name in ninja.__all__ if not isinstance(getattr(ninja, name), ModuleType)]
    parts = [f"ninja.{name}" for name in ninja.__all__ if name not in own_names]
    public = {name: list(getattr(import_module(name), "__all__", ())) for name in [*parts, "ninja.lattice"]}
    return {"ninja": own_names} | {name: names for name, names in sorted(public.items()) if names}


def page(module: str, names: list[str]) -> str:
    """Return the page of a module: each name as it is imported, described where it is defined."""
    holder = import_module(module)
    parts = [f"# {module}\n\n{inspect.getdoc(holder)}\n"]
    for name in names:
        value = getattr(holder, name)
        home = getattr(value, "__module__", None) or module
        source_module = home if getattr(import_module(home), name, None) is value else module
        parts.append(
            f'<a id="{module}.{name}"></a>\n\n::: {source_module}.{name}\n'
            f"    options:\n      heading: {module}.{name}\n      toc_label: {name}\n"
        )
    return "\n".join(parts)


def on_config(config: Any) -> Any:
    """List the pages in the navigation."""
    reference = next(part["Reference"] for part in config.nav if "Reference" in part)
    api = next(part for part in reference if "API" in part)
    api["API"] = [{module: f"api/{module}.md"} for module in modules()]
    return config


def on_files(files: Files, config: Any) -> Files:
    """Add the pages."""
    from mkdocs.structure.files import File

    for module, names in modules().items():
        files.append(File.generated(config, f"api/{module}.md", content=page(module, names)))
    return files
