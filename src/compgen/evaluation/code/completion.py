"""Cutting a completion of code at the end of the function that was asked for.

Covers where the function ends and which later definitions it needs. Does not repair programs: what was wrong stays
wrong, and nothing is taken out before the end. Not evalplus's sanitize, which drops decorated functions and helpers,
and whose time grows with the cube of the lines that do not parse. Time here grows with the length of the completion.

The function is the first one of its name whose body says more than a docstring; a prompt that ends in a docstring may
thus be followed by the body or by the whole function once more. It ends before the next statement at the margin.
"""

import ast
import builtins
import io
import tokenize
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

LAYOUT = {tokenize.COMMENT, tokenize.NL, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
UNREADABLE = (tokenize.TokenError, SyntaxError)
UNPARSABLE = (SyntaxError, ValueError, RecursionError, MemoryError)
LONGEST = 100_000
"""Characters beyond which nothing is looked for behind the function."""
ROUNDS = 8
"""How long a chain of definitions that need each other may be."""


@dataclass
class Line:
    """A logical line: from its first token to the line after its last."""

    start: int
    column: int
    words: list[str]
    end: int

    @property
    def says_nothing(self) -> bool:
        """Whether it is a docstring or a placeholder."""
        return len(self.words) == 1 and (self.words[0] in ("pass", "...") or self.words[0].endswith(('"', "'")))


@dataclass
class Statement:
    """A statement at the margin: decorators, the line that begins it, and the lines below."""

    lines: list[Line]
    head: Line

    @property
    def end(self) -> int:
        """Where the next line begins."""
        return self.lines[-1].end

    def defines(self, name: str) -> bool:
        """Whether it is a function of this name with a body."""
        words = self.head.words[1:] if self.head.words[:1] == ["async"] else self.head.words
        body = self.lines[self.lines.index(self.head) + 1 :]
        return words[:2] == ["def", name] and (words[-1] != ":" or not all(line.says_nothing for line in body))


def cut_completion(prompt: str, completion: str, entry_point: str) -> str:
    """The completion up to the end of the function, followed by what it needs of the definitions behind.

    Args:
        prompt: what stands before the completion; the function may begin in it.
        completion: what the model wrote.
        entry_point: the function's name. A completion without such a function comes back as it is.
    """
    text = prompt + completion
    statements = _statements(_lines(text))
    for place, statement in enumerate(statements):
        if statement.defines(entry_point) and statement.end > len(prompt):
            behind = [text[later.lines[0].start : later.end] for later in statements[place + 1 :]]
            kept = text[: statement.end]
            return "".join([kept, *(_needed(kept, behind) if len(text) <= LONGEST else [])])[len(prompt) :]
    return completion


def _statements(lines: Iterable[Line]) -> list[Statement]:
    """The statements at the margin; lines before the first of them are left out."""
    found: list[Statement] = []
    for line in lines:
        if found and (line.column > 0 or found[-1].head.words[:1] == ["@"]):
            found[-1].lines.append(line)
            if line.column == 0:
                found[-1].head = line
        elif line.column == 0:
            found.append(Statement([line], line))
    return found


def _lines(text: str) -> Iterator[Line]:
    """The logical lines; the rest of the text is one line where it cannot be read as tokens."""
    offsets = [0, *accumulate(len(line) for line in text.split("\n")[:-1])]
    offsets = [offset + row for row, offset in enumerate(offsets)] + [len(text)]
    line: Line | None = None
    read = 0
    try:
        for token in tokenize.generate_tokens(io.StringIO(text, newline="\n").readline):
            if token.type in LAYOUT:
                continue
            if line is None:
                row, column = token.start
                line = Line(offsets[row - 1], column, [], len(text))
            if token.type == tokenize.NEWLINE:
                read = line.end = offsets[min(token.start[0], len(offsets) - 1)]
                yield line
                line = None
            else:
                line.words.append(token.string)
    except UNREADABLE:
        yield line or _unread(text, read)


def _unread(text: str, read: int) -> Line:
    """What cannot be read begins on the next line that is not empty; where it stands too far left, at the margin."""
    rest = text[read:]
    start = len(rest) - len(rest.lstrip())
    begin = rest.rfind("\n", 0, start) + 1
    return Line(read + begin, 0, [rest[start : start + 1]], len(text))


def _needed(kept: str, behind: Sequence[str]) -> list[str]:
    """Those later statements that define names which the kept program uses and does not define, in their order."""
    missing = _missing(kept)
    if not missing:
        return []
    bound = [_defined(statement) for statement in behind]
    chosen: set[int] = set()
    for _ in range(ROUNDS):
        more = {place for place, names in enumerate(bound) if names & missing} - chosen
        if not more:
            break
        chosen |= more
        missing = _missing(kept + "".join(_on_its_own(behind[place]) for place in sorted(chosen)))
    return [_on_its_own(behind[place]) for place in sorted(chosen)]


def _on_its_own(statement: str) -> str:
    return f"\n\n{statement.rstrip()}\n"


def _parse(source: str) -> ast.Module | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SyntaxWarning)
            warnings.simplefilter("ignore", DeprecationWarning)
            return ast.parse(source)
    except UNPARSABLE:
        return None


def _defined(statement: str) -> set[str]:
    """The names that a function, class, import or assignment defines; none for anything else."""
    tree = _parse(statement)
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom, ast.Assign, ast.AnnAssign)
    names: set[str] = set()
    for node in tree.body if tree else []:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            names.add(node.name)
        elif isinstance(node, kinds):
            names |= _bound(node)
    return names


def _missing(source: str) -> set[str]:
    """Names that are read and nowhere bound, as far as that can be seen; none where the source does not parse."""
    tree = _parse(source)
    if tree is None:
        return set()
    read = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
    return read - _bound(tree) - set(vars(builtins))


def _bound(tree: ast.AST) -> set[str]:
    """All names that are bound anywhere in a tree."""
    names: set[str | None] = set()
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name, ctx=ast.Store()):
                names.add(name)
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                names.add(name)
            case ast.ExceptHandler(name=name) | ast.MatchAs(name=name) | ast.MatchStar(name=name):
                names.add(name)
            case ast.arg(arg=name) | ast.MatchMapping(rest=name):
                names.add(name)
            case ast.alias(name=name, asname=asname):
                names.add(asname or name.partition(".")[0])
    return {name for name in names if name is not None}
