"""What the package never calls: a scan of its source, and what the scan sees.

Text of a model, a document or a stored file is data: nothing evaluates, unpickles or runs it, makes
SQL or a shell command of it, or loads objects from it.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("hippo_core", "langchain_hipporag", "llama_index_hipporag")
FILES = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))

MODULES = {
    "cloudpickle",
    "code",
    "dill",
    "joblib",
    "marshal",
    "pickle",
    "runpy",
    "shelve",
    "subprocess",
}
BUILTINS = {"__import__", "compile", "eval", "exec"}
NAMES = {"PickleType", "literal_eval", "md5", "mktemp", "popen", "sha1", "system"}
OF_OS = ("exec", "popen", "posix_spawn", "spawn", "startfile", "system")
OF_YAML = {"full_load", "full_load_all", "load", "load_all", "unsafe_load", "unsafe_load_all"}
NUMPY = {"np", "numpy"}

# Callables that take SQL as text; `execute` takes statements of SQLAlchemy too, made elsewhere.
RUNS_SQL = {"DDL", "exec_driver_sql", "executescript", "literal_column", "text"}
SQL = {
    "ALTER", "ATTACH", "BEGIN", "COPY", "CREATE", "DELETE", "DROP", "EXPLAIN", "GRANT", "INSERT",
    "PRAGMA", "REINDEX", "REPLACE", "SELECT", "SET", "SHOW", "TRUNCATE", "UPDATE", "VACUUM", "WITH",
}  # fmt: skip

# All SQL that is made of parts. Each part is a number or a name of our own, never anybody's text.
OUR_SQL = {
    "SELECT pg_advisory_xact_lock({_OUR_LOCK}, hashtext('hippo_settings'::regclass::oid::text))",
    "SELECT pg_advisory_xact_lock({_OUR_LOCK}, hashtext(coalesce(current_schema(), '')))",
    "_POSTGRES_LOCKS[wants]",  # one of the two above
    "SET LOCAL lock_timeout = {LOCK_TIMEOUT}",
    "PRAGMA busy_timeout={LOCK_TIMEOUT}",
    "PRAGMA busy_timeout={timeout}",  # a number of ours
    "VACUUM {', '.join(metadata.tables)}",
    "ALTER TABLE {name} RENAME TO hippo_{name}",  # the tables of schema version 1
    "DROP INDEX {name}",
    "INSERT OR IGNORE INTO hippo_namespaces (namespace, version, generations) "
    "SELECT DISTINCT namespace, 0, 0 FROM {name}",
}


def dangers(tree: ast.AST) -> Iterator[str]:
    """Give each thing in a module that must not be there, with its line."""
    runners = {*RUNS_SQL, *aliases(tree)}
    for node in ast.walk(tree):
        found = [*imported(node), *named(node), *called(node), *keywords(node)]
        found += [sql for sql in [*built_sql(node), *run_sql(node, runners)] if sql not in OUR_SQL]
        yield from (f"line {getattr(node, 'lineno', '?')}: {thing}" for thing in found)


def imported(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.Import(names=names):
            yield from (a.name for a in names if a.name.partition(".")[0] in MODULES)
        case ast.ImportFrom(module=str(module), names=names):
            if module.partition(".")[0] in MODULES:
                yield module
            yield from (f"{module}.{a.name}" for a in names if is_forbidden(module, a.name))
            if module == "numpy" and any(a.name == "load" for a in names):
                yield "numpy.load by a name that the scan does not follow"


def named(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.Name(id=name) if name in NAMES:
            yield name
        case ast.Attribute(value=ast.Name(id=owner), attr=name) if is_forbidden(owner, name):
            yield f"{owner}.{name}"
        case ast.Attribute(attr=name) if name in NAMES:
            yield name


def is_forbidden(owner: str, name: str) -> bool:
    """Whether a module's or object's attribute must not be taken."""
    if name in NAMES or (owner == "os" and name.startswith(OF_OS)):
        return True
    return owner == "yaml" and name in OF_YAML


def called(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.Call(func=ast.Name(id=name)) if name in BUILTINS:
            yield name
        case ast.Call(func=ast.Attribute(value=ast.Name(id=owner), attr="load")) if owner in NUMPY:
            if not any(k.arg == "allow_pickle" for k in node.keywords):
                yield f"{owner}.load without allow_pickle=False"
        case ast.Call(func=ast.Attribute(attr="new" | "file_digest"), args=args):
            for argument in args:
                if isinstance(argument, ast.Constant) and str(argument.value).lower() in NAMES:
                    yield str(argument.value)


def keywords(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.keyword(arg="allow_pickle" | "shell", value=ast.Constant(value=False)):
            pass
        case ast.keyword(arg="allow_pickle" | "shell"):
            yield str(node.arg)


# -- SQL -------------------------------------------------------------------------------------------


def built_sql(node: ast.AST) -> Iterator[str]:
    """Give the expression if it puts SQL together, wherever it stands."""
    if is_built(node) and shown(node).lstrip("'\"( ").partition(" ")[0] in SQL:
        yield shown(node)


def run_sql(node: ast.AST, runners: set[str]) -> Iterator[str]:
    """Give the text that a call runs as SQL, unless it is written out there."""
    match node:
        case ast.Call(func=ast.Attribute(attr=name) | ast.Name(id=name), args=[sql, *_]):
            if (name in runners and not is_written_out(sql)) or (
                name in ("execute", "executemany") and is_built(sql)
            ):
                yield shown(sql)


def aliases(tree: ast.AST) -> Iterator[str]:
    """Give the names of callables that run SQL: `run` in `run = connection.exec_driver_sql`."""
    for node in ast.walk(tree):
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Attribute(attr=attribute)):
                if attribute in RUNS_SQL:
                    yield name


def is_built(node: ast.AST) -> bool:
    """Whether an expression puts a text together: f-string, %, +, format, join or replace."""
    match node:
        case ast.JoinedStr(values=values):
            return any(isinstance(value, ast.FormattedValue) for value in values)
        case ast.BinOp(left=left, op=ast.Mod() | ast.Add(), right=right):
            return any(is_text(side) for side in (left, right))
        case ast.Call(func=ast.Attribute(value=value, attr="format" | "join" | "replace")):
            return is_text(value)
    return False


def is_text(node: ast.AST) -> bool:
    return is_built(node) or (isinstance(node, ast.Constant) and isinstance(node.value, str))


def is_written_out(node: ast.AST) -> bool:
    if isinstance(node, ast.IfExp):
        return is_written_out(node.body) and is_written_out(node.orelse)
    return isinstance(node, ast.Constant)


def shown(node: ast.AST) -> str:
    """Give an expression as text, an f-string without its quotes."""
    if not isinstance(node, ast.JoinedStr):
        return ast.unparse(node)
    return "".join(
        str(part.value) if isinstance(part, ast.Constant) else f"{{{ast.unparse(part.value)}}}"  # type: ignore[attr-defined]
        for part in node.values
    )


# -- the package -----------------------------------------------------------------------------------


@pytest.mark.parametrize("path", FILES, ids=[str(path.relative_to(ROOT)) for path in FILES])
def test_no_text_is_ever_evaluated_unpickled_or_run(path: Path) -> None:
    assert not list(dangers(ast.parse(path.read_text("utf-8"))))


def test_the_list_of_our_sql_holds_nothing_that_is_gone() -> None:
    there = set()
    for path in FILES:
        tree = ast.parse(path.read_text("utf-8"))
        runners = {*RUNS_SQL, *aliases(tree)}
        for node in ast.walk(tree):
            there.update(built_sql(node), run_sql(node, runners))
    assert there == OUR_SQL


# -- the scan --------------------------------------------------------------------------------------

SEEN_AND_NOT = {
    "evaluation": (
        ["eval(reply)", "exec(reply)", "compile(reply, '', 'exec')", "__import__(name)"],
        ["re.compile(reply)", "model.eval()", "evaluate(reply)"],
    ),
    "literals": (
        ["import ast; ast.literal_eval(reply)", "from ast import literal_eval"],
        ["json.loads(reply)"],
    ),
    "pickle": (
        ["import pickle", "from pickle import loads", "import joblib.memory", "Column(PickleType)"],
        ["import json", "from pickled import onions", "def __reduce__(self): ..."],
    ),
    "arrays": (
        [
            "np.load(path)",
            "numpy.load(path, mmap_mode='r')",
            "np.load(path, allow_pickle=True)",
            "np.load(path, allow_pickle=flag)",
            "from numpy import load",
        ],
        [
            "np.load(path, allow_pickle=False)",
            "numpy.load(path, allow_pickle=False)",
            "json.load(file)",
            "np.loadtxt(path)",
        ],
    ),
    "yaml": (
        [
            "yaml.load(text)",
            "yaml.load(text, Loader)",
            "from yaml import load",
            "yaml.full_load(t)",
        ],
        ["yaml.safe_load(text)", "from yaml import safe_load"],
    ),
    "temporary files": (
        ["tempfile.mktemp()", "from tempfile import mktemp"],
        ["tempfile.mkdtemp()", "tempfile.NamedTemporaryFile()"],
    ),
    "shell": (
        [
            "run(reply, shell=True)",
            "run(reply, shell=flag)",
            "import subprocess",
            "from subprocess import run",
            "os.system(reply)",
            "os.popen(reply)",
            "from os import popen",
            "os.execv(path, args)",
            "os.execlp(reply, reply)",
            "from os import execvpe",
            "os.spawnl(0, reply)",
            "os.posix_spawn(reply, [], {})",
            "os.startfile(reply)",
        ],
        ["run(words, shell=False)", "os.environ", "connection.execute(query)", "role == 'system'"],
    ),
    "weak hashes": (
        [
            "hashlib.md5(data)",
            "hashlib.sha1(data)",
            "from hashlib import sha1",
            "hashlib.new('MD5', data)",
            "hashlib.file_digest(file, 'sha1')",
            "hashlib.file_digest(file, hashlib.md5)",
        ],
        ["hashlib.sha256(data)", "hashlib.new('sha256')", "hashlib.file_digest(file, 'sha256')"],
    ),
    "SQL": (
        [
            "connection.execute(f'SELECT {name}')",
            "connection.execute(text(f'SELECT {name}'))",
            "connection.execute(text(query))",
            "sa.text('SELECT ' + name)",
            "sa.text('SELECT %s' % name)",
            "sa.text('SELECT {}'.format(name))",
            "sa.text(' '.join(words))",
            "connection.execute('SELECT * FROM ' + table)",
            "driver.execute('PRAGMA %s' % name)",
            "connection.exec_driver_sql(query)",
            "connection.exec_driver_sql(f'DROP TABLE {table}')",
            "run = connection.exec_driver_sql; run(query)",
            "driver.executescript(dump)",
            "sa.literal_column(name)",
            "sa.DDL(statement)",
            "query = f'DELETE FROM {table}'",
            "query = 'DELETE FROM ' + table",
            "query = 'DELETE FROM x WHERE id = {}'.format(id_)",
        ],
        [
            "connection.execute(sa.select(table).where(table.c.id == id_))",
            "connection.execute(query, rows)",
            "connection.exec_driver_sql('BEGIN IMMEDIATE' if write else 'BEGIN')",
            "connection.exec_driver_sql('PRAGMA integrity_check')",
            "driver.execute(f'PRAGMA busy_timeout={timeout}')",
            "run = connection.exec_driver_sql; run('DROP TABLE vectors')",
            "message = f'{name} is no store; {fix}'",
            "message = f'Select a store, {name}'",
            "sa.text('SELECT 1')",
        ],
    ),
}
SEEN = [(rule, code) for rule, (codes, _) in SEEN_AND_NOT.items() for code in codes]
NOT_SEEN = [(rule, code) for rule, (_, codes) in SEEN_AND_NOT.items() for code in codes]


@pytest.mark.parametrize(("rule", "code"), SEEN)
def test_the_scan_sees(rule: str, code: str) -> None:
    assert list(dangers(ast.parse(code)))


@pytest.mark.parametrize(("rule", "code"), NOT_SEEN)
def test_the_scan_lets_pass(rule: str, code: str) -> None:
    assert not list(dangers(ast.parse(code)))
