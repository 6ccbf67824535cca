"""How many of the mistakes that are drawn at random the tests catch.

`python tools mutants [--count 200] [--seed 0] [--workers 1]`

`mutations.py` plants mistakes from a list; here they are drawn: each place of the package in which an operator of
`mutants_at` changes something is as likely as any other, and so is each change at that place. The operators are those
of mutmut that leave code which runs, and a few more. Nothing is changed in docstrings, annotations, imports,
decorators, texts of errors, and in what draws pictures or prints values (`left_out`).

The tests of one commit are first run once under `coverage`, which notes which of them run which line
(`who_runs_what.py`; some 15 minutes of one core, kept in `--map`). Each mistake is then planted in a clone of that
commit, and the tests that run its statement are run until one fails, then the others of their files and those of files
that name the module, as many as take `--budget` seconds. A mistake that lets them run for more than four times as long
is caught, too. Slow tests are not run, nor those of planted mistakes, which compare texts.

`results/mutants.json` has every mistake with its change, the test that saw it, and the seconds it took; a run that was
interrupted goes on there. A mistake that survives is read by a person: `equivalent.toml` names those that change
nothing a user could see, with reasons. `--again` plants the others in the present commit, and runs the tests that have
changed since; `--sample 60` draws from all, and says how many the fast part sees now.
"""

import argparse
import ast
import difflib
import json
import os
import random
import re
import signal
import sqlite3
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import Queue
from typing import Any, NamedTuple

import libcst as cst
import libcst.matchers as m
from common import record
from coverage.numbits import numbits_to_nums
from mutmut.mutation import mutators
from scipy.stats import binomtest

ROOT = Path(__file__).parents[1]
HERE = Path(__file__).parent
FOLDERS = ("envs", "policies", "wrappers", "bench", "src/taciturn", "papers/src")
TESTS = ("tests", "papers/tests")
RESULTS = HERE / "results" / "mutants.json"
NOT_RUN = "tests/test_mutations.py"
PAIRS = (
    *(("min", "max"), ("minimum", "maximum"), ("nanmin", "nanmax"), ("argmin", "argmax"), ("any", "all")),
    *(("floor", "ceil"), ("zeros", "ones"), ("zeros_like", "ones_like"), ("sum", "mean"), ("cumsum", "cumprod")),
)
OTHER_FUNCTION = dict(PAIRS) | {second: first for first, second in PAIRS}


class Place(NamedTuple):
    """A node of a file's tree, the function or class in which it is, and its possible mistakes."""

    name: str
    node: cst.CSTNode
    mistakes: list[tuple[str, cst.CSTNode]]  # operator, and what takes the node's place


class Mutant(NamedTuple):
    name: str
    operator: str
    file: Path  # below the root
    line: int
    before: str
    after: str

    @property
    def diff(self) -> str:
        """The lines that change, without context."""
        lines = difflib.unified_diff(self.before.splitlines(), self.after.splitlines(), lineterm="", n=0)
        return "\n".join(line for line in lines if not line.startswith(("---", "+++", "@@")))


# Operators


def one_less(node: cst.Integer) -> Iterator[cst.CSTNode]:
    if node.evaluated_value > 0:
        yield cst.Integer(str(node.evaluated_value - 1))


def without_a_keyword(node: cst.Call) -> Iterator[cst.CSTNode]:
    for i, argument in enumerate(node.args):
        if argument.keyword is not None:
            others = [*node.args[:i], *node.args[i + 1 :]]
            if others and i == len(node.args) - 1:
                others[-1] = others[-1].with_changes(comma=argument.comma)
            yield node.with_changes(args=others)


def swapped_arguments(node: cst.Call) -> Iterator[cst.CSTNode]:
    for i, (first, second) in enumerate(zip(node.args, node.args[1:], strict=False)):
        named = first.keyword or second.keyword or first.star or second.star
        if not named and not first.value.deep_equals(second.value):
            swapped = [first.with_changes(value=second.value), second.with_changes(value=first.value)]
            yield node.with_changes(args=[*node.args[:i], *swapped, *node.args[i + 2 :]])


def other_function(node: cst.Call) -> Iterator[cst.CSTNode]:
    if isinstance(node.func, cst.Name) and node.func.value in OTHER_FUNCTION:
        yield node.with_changes(func=cst.Name(OTHER_FUNCTION[node.func.value]))
    if isinstance(node.func, cst.Attribute) and node.func.attr.value in OTHER_FUNCTION:
        yield node.with_changes(func=node.func.with_changes(attr=cst.Name(OTHER_FUNCTION[node.func.attr.value])))


def one_condition(node: cst.BooleanOperation) -> Iterator[cst.CSTNode]:
    yield from (node.left, node.right)


def no_statement(node: cst.BaseSmallStatement) -> Iterator[cst.CSTNode]:
    """Statements without which names stay defined, docstrings not among them."""
    effect = cst.AugAssign | cst.Raise | cst.Break | cst.Continue | cst.Del
    called = isinstance(node, cst.Expr) and isinstance(node.value, cst.Call)
    field = isinstance(node, cst.Assign) and isinstance(node.targets[0].target, cst.Attribute | cst.Subscript)
    if isinstance(node, effect) or called or field:
        yield cst.Pass()


SIGNS = (cst.BinaryOperation, cst.UnaryOperation, cst.BooleanOperation, cst.ComparisonTarget, cst.AugAssign)
KEYWORDS = (cst.Is, cst.IsNot, cst.In, cst.NotIn, cst.Break, cst.Continue)
OPERATORS: dict[str, tuple[type | tuple[type, ...], Callable[[Any], Iterable[cst.CSTNode]]]] = {
    "sign or comparison": (SIGNS, mutators.operator_swap_op),
    "is, in, break, continue": (KEYWORDS, mutators.operator_keywords),
    "True or False": (cst.Name, mutators.operator_name),
    "number": (cst.BaseNumber, mutators.operator_number),
    "number, one less": (cst.Integer, one_less),
    "no `not`": (cst.UnaryOperation, mutators.operator_remove_unary_ops),
    "assigned, not added": (cst.AugAssign, mutators.operator_augmented_assignment),
    "one branch": (cst.IfExp, mutators.operator_if_exp),
    "one condition": (cst.BooleanOperation, one_condition),
    "keyword argument dropped": (cst.Call, without_a_keyword),
    "arguments swapped": (cst.Call, swapped_arguments),
    "other function": (cst.Call, other_function),
    "method of strings": (cst.Call, mutators.operator_symmetric_string_methods_swap),
    "no statement": (cst.BaseSmallStatement, no_statement),
}


def mutants_at(node: cst.CSTNode) -> list[tuple[str, cst.CSTNode]]:
    return [
        (name, other)
        for name, (types, operator) in OPERATORS.items()
        if isinstance(node, types)
        for other in operator(node)
    ]


def left_out(node: cst.CSTNode) -> bool:
    """Whether nothing below a node is changed."""
    if isinstance(node, cst.FunctionDef | cst.ClassDef):
        return re.match(r"__repr__|__str__|_?draw|_?render", node.name.value) is not None
    if isinstance(node, cst.If):
        return m.matches(node.test, m.Name("TYPE_CHECKING"))
    return isinstance(node, cst.Annotation | cst.Decorator | cst.Import | cst.ImportFrom | cst.Raise)


class Places(cst.CSTVisitor):
    """The places of a file."""

    def __init__(self, module: str):
        super().__init__()
        self.names, self.found = [module], list[Place]()

    def on_visit(self, node: cst.CSTNode) -> bool:
        if mistakes := mutants_at(node):
            self.found.append(Place(".".join(self.names), node, mistakes))
        if left_out(node):
            return False
        if isinstance(node, cst.FunctionDef | cst.ClassDef):
            self.names.append(node.name.value)
        return True

    def on_leave(self, original_node: cst.CSTNode) -> None:
        if isinstance(original_node, cst.FunctionDef | cst.ClassDef) and not left_out(original_node):
            self.names.pop()


def module_of(file: Path) -> str:
    return ".".join(file.with_suffix("").parts).removeprefix("papers.").removeprefix("src.").removesuffix(".__init__")


def files(root: Path) -> list[Path]:
    results = [file for folder in FOLDERS for file in sorted((root / folder).rglob("*.py"))]
    real = [file.relative_to(root) for file in results if file.resolve() == file.absolute()]
    return [file for file in real if file.name not in ("drawing.py", "rendering.py")]


def drawn(root: Path, count: int, seed: int) -> Iterator[Mutant]:
    """`count` mistakes of the package below `root`, at different places."""
    places: list[tuple[Path, int]] = []
    trees: dict[Path, tuple[cst.Module, list[Place]]] = {}
    for file in files(root):
        tree = cst.parse_module((root / file).read_text(encoding="utf-8"))
        visitor = Places(module_of(file))
        tree.visit(visitor)
        trees[file] = tree, visitor.found
        places += [(file, i) for i in range(len(visitor.found))]
    rng = random.Random(seed)
    print(f"{len(places):,} places in {len(trees)} files")
    rng.shuffle(places)
    for file, i in places[:count]:  # those of a smaller count come first
        tree, result = trees[file]
        name, node, mistakes = result[i]
        operator, other = rng.choice(mistakes)
        changed = tree.deep_replace(node, other)
        assert isinstance(changed, cst.Module)
        before, after = tree.code, changed.code
        line = next(
            (k for k, (old, new) in enumerate(zip(before.split("\n"), after.split("\n"), strict=False)) if old != new),
            0,
        )
        yield Mutant(name, operator, file, line + 1, before, after)


# Which tests


def names_in(module: str) -> set[str]:
    """What tests call a module: its name and that of its folder."""
    return {module.rpartition(".")[2], *module.split(".")[-2:-1]} - {"core", "world", "__init__", "taciturn"}


def names_of(mutant: Mutant, text: str) -> bool:
    """Whether a test names the module of a mistake."""
    return any(re.search(rf"\b{name}\b", text) for name in names_in(module_of(mutant.file)))


def texts(root: Path) -> dict[str, str]:
    """The files of tests below `root`."""
    result = sorted(file for folder in TESTS for file in (root / folder).glob("test_*.py"))
    return {str(test.relative_to(root)): test.read_text(encoding="utf-8") for test in result}


class Map:
    """Which tests run which lines, and how long they take."""

    def __init__(self, folder: Path, root: Path):
        self.root = root
        noted = json.loads((folder / "tests.json").read_text(encoding="utf-8"))
        self.seconds = {test: one["seconds"] for test, one in noted.items() if not one["failed"]}
        self.data = folder / "coverage"
        self.texts = texts(root)

    def running(self, file: Path, lines: set[int]) -> set[str]:
        """The tests that run one of these lines of a file."""
        with sqlite3.connect(self.data) as data:
            rows = data.execute(
                "SELECT context.context, numbits FROM line_bits JOIN context ON context.id = context_id "
                "JOIN file ON file.id = file_id WHERE file.path LIKE ?",
                (f"%/{file.as_posix().removeprefix('papers/').removeprefix('src/')}",),
            ).fetchall()
        return {test for test, bits in rows if test in self.seconds and lines & set(numbits_to_nums(bits))}

    def tests(self, mutant: Mutant, budget: float) -> list[str]:
        """The tests that could see a mistake, those that run its statement first, as many as `budget` seconds play."""
        module = module_of(mutant.file)
        lines = statement(mutant.before, mutant.line)
        close = self.running(mutant.file, lines)
        neighbours = {test.partition("::")[0] for test in close}
        names = names_in(module)
        naming = {test for test, text in self.texts.items() if names_of(mutant, text)}

        def rank(test: str) -> tuple[bool, bool, float]:
            home = test.partition("::")[0]
            return test not in close, not any(name in home for name in names), self.seconds[test]

        chosen, taken = list[str](), 0.0
        for test in sorted(self.seconds, key=rank):
            home = test.partition("::")[0]
            if home == NOT_RUN or not (test in close or home in neighbours | naming):
                continue
            taken += self.seconds[test]
            if chosen and taken > budget:
                break
            chosen.append(test)
        return chosen


def statement(text: str, line: int) -> set[int]:
    """The lines of the statement that holds a line; of a block, its head."""
    results = {line}
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.stmt) and node.lineno <= line <= (node.end_lineno or node.lineno):
            body = getattr(node, "body", None)
            end = body[0].lineno - 1 if body else node.end_lineno or node.lineno
            if line <= end:
                results = set(range(node.lineno, end + 1))
    return results


def measure(folder: Path, root: Path) -> None:
    """Make the map of the tests below `root`."""
    folder.mkdir(parents=True, exist_ok=True)
    include = ",".join(f"{root}/{part}/*" for part in FOLDERS)
    command = [sys.executable, "-m", "coverage", "run", f"--include={include}", *pytest(), "-m", "not slow"]
    watched = [*command, "--watch", str(folder / "tests.json"), "--ignore", NOT_RUN, *TESTS]
    subprocess.run(watched, cwd=root, env=environment(root) | {"COVERAGE_FILE": str(folder / "coverage")}, check=False)


def pytest() -> list[str]:
    return ["-m", "pytest", "-p", "who_runs_what", "-q", "-n", "0", "-p", "no:cacheprovider"]


def environment(root: Path) -> dict[str, str]:
    return os.environ | {
        "PYTHONPATH": os.pathsep.join(map(str, (root / "src", root / "papers/src", HERE))),
        "OMP_NUM_THREADS": "1",
        "MPLBACKEND": "Agg",
    }


# Planting


def seen_by(root: Path, tests: list[str], limit: float) -> tuple[str, float]:
    """The first of these tests, or files of tests, that fails below `root`, or what else shows that something is wrong;
    empty if nothing does. And how many seconds it took."""
    with tempfile.NamedTemporaryFile("w", suffix=".json", encoding="utf-8") as only:
        json.dump(tests, only)
        only.flush()
        homes = list(dict.fromkeys(test.partition("::")[0] for test in tests))
        command = [sys.executable, *pytest(), "-m", "not slow", "-x", *homes]
        if homes != tests:
            command += ["--only", only.name]
        began = os.times().elapsed
        with subprocess.Popen(
            command,
            cwd=root,
            env=environment(root),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        ) as run:
            try:
                said = run.communicate(timeout=limit)[0]
            except subprocess.TimeoutExpired:
                os.killpg(run.pid, signal.SIGKILL)
                run.communicate()
                return "the time limit", os.times().elapsed - began
    took = os.times().elapsed - began
    if run.returncode in (0, 5):
        return "", took
    failed = re.search(r"^(?:FAILED|ERROR) (.+?)(?: - |$)", said, re.MULTILINE)
    return (failed[1] if failed else f"exit code {run.returncode}"), took


def evaluated(root: Path, mutant: Mutant, known: Map, budget: float) -> dict[str, Any]:
    tests = known.tests(mutant, budget)
    file = root / mutant.file
    file.write_text(mutant.after, encoding="utf-8")
    try:
        compile(mutant.after, mutant.file, "exec")
        by, seconds = seen_by(root, tests, 60 + 4 * budget) if tests else ("", 0.0)
    except SyntaxError:
        by, seconds = "the compiler", 0.0
    finally:
        file.write_text(mutant.before, encoding="utf-8")
        git(root, "checkout", "--quiet", ".")
        git(root, "clean", "--quiet", "-fd")
    about = {"name": mutant.name, "operator": mutant.operator, "file": str(mutant.file), "line": mutant.line}
    outcome = {"diff": mutant.diff, "caught": bool(by), "by": by, "tests": len(tests), "seconds": round(seconds, 1)}
    return about | outcome


def git(root: Path, *arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=root, check=True, capture_output=True, text=True).stdout.strip()


def equivalent(mutant: dict[str, Any]) -> str:
    """Why a survivor is no mistake; empty if nobody says so."""
    known = tomllib.loads((HERE / "equivalent.toml").read_text(encoding="utf-8"))["equivalent"]
    here = (one for one in known if one["name"] == mutant["name"] and one["diff"].strip() == mutant["diff"].strip())
    return next((str(one["why"]) for one in here), "")


def share(caught: int, of: int) -> str:
    """With its 95% interval of Clopper and Pearson."""
    if not of:
        return "none of 0"
    low, high = binomtest(caught, of).proportion_ci(0.95, method="exact")
    return f"{caught} of {of}, {caught / of:.0%} (95% interval {low:.0%} to {high:.0%})"


def summary(mutants: list[dict[str, Any]]) -> str:
    alike = [mutant for mutant in mutants if not mutant["caught"] and equivalent(mutant)]
    others = [mutant for mutant in mutants if mutant not in alike]
    lines = [f"caught {share(sum(mutant['caught'] for mutant in mutants), len(mutants))}"]
    lines += [
        f"without the {len(alike)} that change nothing: {share(sum(other['caught'] for other in others), len(others))}"
    ]
    if any("later" in other for other in others):
        later = sum(other["caught"] or bool(other.get("later", {}).get("by")) for other in others)
        lines += [
            f"with the tests added since, which were made with these survivors in view: {share(later, len(others))}"
        ]
    for operator in OPERATORS:
        here = [other for other in others if other["operator"] == operator]
        if here:
            lines += [f"  {operator}: {sum(one['caught'] for one in here)} of {len(here)}"]
    return "\n".join(lines)


def stored() -> dict[str, Any]:
    result: dict[str, Any] = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}
    return result


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(description="Draw mistakes and see which of them the tests catch.")
    parser.add_argument("--count", type=int, default=200, help="how many mistakes")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--commit", default="HEAD")
    parser.add_argument("--budget", type=float, default=120.0, help="seconds of tests for a mistake that none sees")
    parser.add_argument(
        "--map", type=Path, default=ROOT / "results" / "mutants", help="where the map of the tests lies"
    )
    parser.add_argument("--again", action="store_true", help="plant the survivors in HEAD and run the tests new since")
    parser.add_argument("--sample", type=int, help="plant so many of the mistakes of before in HEAD")
    parser.add_argument("--list", action="store_true", help="print the mistakes and plant none")
    parser.add_argument("--show", action="store_true", help="print the shares of what is kept")
    asked = parser.parse_args(arguments)
    if asked.show:
        print(summary(stored()["mutants"]))
    elif asked.again:
        again()
    elif asked.sample:
        sample(asked.sample, asked.seed, asked.workers)
    else:
        play(asked)


def play(asked: argparse.Namespace) -> None:
    commit = git(ROOT, "rev-parse", "--short=12", asked.commit)
    drawing = {"commit": commit, "seed": asked.seed, "budget": asked.budget}
    earlier = stored()
    done = earlier["mutants"] if earlier and all(earlier[key] == value for key, value in drawing.items()) else []
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(asked.workers) as pool:
        clones: Queue[Path] = Queue()
        for i in range(asked.workers):
            root = Path(folder) / str(i)
            git(ROOT, "clone", "--quiet", str(ROOT), str(root))
            git(root, "checkout", "--quiet", commit)
            clones.put(root)
        mutants = list(drawn(root, asked.count, asked.seed))
        if asked.list:
            print("\n".join(f"{one.name} ({one.operator})\n{one.diff}" for one in mutants))
            return
        if not (asked.map / "tests.json").exists():
            measure(asked.map, root)
        known = Map(asked.map, root)

        def plant(mutant: Mutant) -> dict[str, Any]:
            root = clones.get()
            result = evaluated(root, mutant, known, asked.budget)
            clones.put(root)
            return result

        for result in pool.map(plant, mutants[len(done) :]):
            done.append(result)
            print(f"{'caught' if result['caught'] else 'MISSED'}  {result['name']}: {result['by']}", flush=True)
            record("mutants", drawing | {"mutants": done}, folder=RESULTS.parent)
    print(summary(done))


def again() -> None:
    """What the tests that have changed since see of the mistakes that survived."""
    results = stored()
    commit = git(ROOT, "rev-parse", "--short=12", "HEAD")
    changed = git(ROOT, "diff", "--name-only", "--diff-filter=d", results["commit"], "HEAD", "--", *TESTS).split()
    tests = [test for test in changed if Path(test).name.startswith("test_") and test != NOT_RUN]
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        for mutant, result in zip(redrawn(root, results, commit), results["mutants"], strict=True):
            if result["caught"] or equivalent(result) or not tests:
                continue
            there = applied(root, mutant)
            by = seen_by(root, tests, 1200.0)[0] if there else ""
            result["later"] = {"commit": commit, "by": by, "still there": there}
            git(root, "checkout", "--quiet", ".")
            print(f"{'caught' if by else 'MISSED'}  {result['name']}: {by}", flush=True)
            record("mutants", results, folder=RESULTS.parent)
    print(summary(results["mutants"]))


def sample(count: int, seed: int, workers: int) -> None:
    """How many of `count` mistakes, drawn from those of before, the fast part of HEAD sees. The test that saw a mistake
    before is run first, then its file, then those that name the module or its folder. Mistakes that no test saw before
    are taken to be unseen, so that the number now is a lower bound."""
    results, clones = stored(), Queue[Path]()
    commit = git(ROOT, "rev-parse", "--short=12", "HEAD")
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(workers) as pool:
        for i in range(workers):
            clones.put(Path(folder) / str(i))
            mutants = redrawn(Path(folder) / str(i), results, commit)
        known = texts(ROOT)

        def plant(mutant: Mutant, found: dict[str, Any]) -> dict[str, Any]:
            root = clones.get()
            first = found["by"].partition("::")[0]
            naming = [test for test, text in known.items() if names_of(mutant, text) and test not in (NOT_RUN, first)]
            there, rounds = applied(root, mutant), [[found["by"]], [first]] if first in known else []
            rounds = [*rounds, naming] if there and found["caught"] else []
            by = next((by for some in rounds if some and (by := seen_by(root, some, 1200.0)[0])), "")
            git(root, "checkout", "--quiet", ".")
            clones.put(root)
            if there:
                print(f"{'caught' if by else 'MISSED'} (before: {found['caught']})  {found['name']}: {by}", flush=True)
            about = {"name": found["name"], "operator": found["operator"], "line": found["line"]}
            return about | {"still there": there, "before": found["caught"], "by": by}

        pairs = [pair for pair in zip(mutants, results["mutants"], strict=True) if not equivalent(pair[1])]
        random.Random(seed).shuffle(pairs)
        outcomes = [one for one in pool.map(lambda pair: plant(*pair), pairs[:count]) if one["still there"]]
    before, after = sum(outcome["before"] for outcome in outcomes), sum(bool(outcome["by"]) for outcome in outcomes)
    print(f"before {share(before, len(outcomes))}; now {share(after, len(outcomes))}")
    result = results | {"fast_part": {"commit": commit, "seed": seed, "sample": outcomes}}
    record("mutants", result, folder=RESULTS.parent)


def redrawn(root: Path, results: dict[str, Any], commit: str) -> list[Mutant]:
    """The mistakes of earlier results, and a clone of a commit in `root`."""
    git(ROOT, "clone", "--quiet", str(ROOT), str(root))
    git(root, "checkout", "--quiet", results["commit"])
    mutants = list(drawn(root, len(results["mutants"]), results["seed"]))
    git(root, "checkout", "--quiet", commit)
    return mutants


def applied(root: Path, mutant: Mutant) -> bool:
    """Plant a mistake in a clone of another commit, if its text is still there."""
    name, old, new = str(mutant.file), mutant.before.splitlines(True), mutant.after.splitlines(True)
    patch = "".join(difflib.unified_diff(old, new, f"a/{name}", f"b/{name}"))
    done = subprocess.run(["git", "apply"], cwd=root, input=patch, text=True, capture_output=True, check=False)
    return done.returncode == 0
