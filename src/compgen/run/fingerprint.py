"""Content digests: of files, of configurations, and of the source files that a module transitively imports.

Covers what "changed in content" means. Time stamps never take part.
"""

import ast
import hashlib
import json
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

PACKAGE = "compgen"
JOB_PACKAGE = "compgen.jobs"
"""Where the module of every kind of job lies."""
TEMPLATES = "templates"
"""Files in a folder of this name count as source of the modules beside it."""
SOURCE_ROOT = Path(__file__).resolve().parents[2]


def canonical_json(value: object) -> str:
    """JSON text that is equal for equal values: sorted keys, no spaces, no NaN.

    Raises:
        ValueError: for NaN or infinity, which JSON cannot hold.
    """
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def text_digest(text: str) -> str:
    """SHA-256 of a text, as 64 hexadecimal digits."""
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


def file_digest(path: Path) -> str:
    """SHA-256 of a file's bytes, as 64 hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def mapping_digest(mapping: Mapping[str, str]) -> str:
    """One digest for a mapping of names to digests."""
    return text_digest(canonical_json(dict(mapping)))


def job_closure(kind: str) -> dict[str, str]:
    """Digests of the files that a kind of job imports."""
    return source_closure(f"{JOB_PACKAGE}.{kind}")


def source_closure(module: str, root: Path = SOURCE_ROOT) -> dict[str, str]:
    """Digests of the files of this package that `module` imports, directly or not, itself included.

    Read from the import statements (those inside functions too), so nothing is executed; templates beside a module
    count with it. Keys are paths relative to the package, for example `composition/rule.py`.
    """
    found: dict[str, str] = {}
    waiting = [module]
    seen: set[str] = set()
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        path = _module_file(name, root)
        if path is None:
            continue
        for file in (path, *sorted((path.parent / TEMPLATES).glob("*"))):
            found[file.relative_to(root / PACKAGE).as_posix()] = file_digest(file)
        waiting.extend(_imported_modules(path, name))
        waiting.append(name.rpartition(".")[0])
    return dict(sorted(found.items()))


def _module_file(name: str, root: Path) -> Path | None:
    """The source file of a dotted module name of this package; None for other packages and for names in a module."""
    if name.split(".")[0] != PACKAGE:
        return None
    base = root.joinpath(*name.split("."))
    for candidate in (base / "__init__.py", base.with_suffix(".py")):
        if candidate.is_file():
            return candidate
    return None


@cache
def _parsed_imports(path: Path, _digest: str, package: str) -> tuple[str, ...]:
    tree = ast.parse(path.read_text(encoding="utf-8"), filename=str(path))
    return tuple(name for node in ast.walk(tree) for name in _names_of(node, package))


def _imported_modules(path: Path, name: str) -> tuple[str, ...]:
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    return _parsed_imports(path, file_digest(path), package)


def _names_of(node: ast.AST, package: str) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        base = node.module or ""
        if node.level:
            parents = package.split(".")[: len(package.split(".")) - node.level + 1]
            base = ".".join([*parents, base] if base else parents)
        yield base
        yield from (f"{base}.{alias.name}" for alias in node.names)
