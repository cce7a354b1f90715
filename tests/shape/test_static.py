"""What is read from the sources: each figure, on a small tree that has what is counted and what only looks like it."""

import ast
from pathlib import Path
from textwrap import dedent

import pytest
from support.source_trees import make_module, make_tree

from shape import aiohttp_names, aliases, classes, folders, functions, hosted_tools, rooms
from shape.static import static_rows
from shape.table import Row
from shape.tree import Tree, read_tree


def row(found: list[Row], what: str) -> Row:
    return next(row for row in found if what in row.what)


# ---- the tree --------------------------------------------------------------------------------------------------------


def test_a_tree_is_found_by_its_root_or_its_sources(tmp_path: Path) -> None:
    tree = make_tree(tmp_path, {"a/b.py": ""})
    assert read_tree(tmp_path / "src") == tree
    assert [module.name for module in tree.modules] == ["", "a.b"]


def test_a_folder_without_the_package_is_no_tree(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="has no src/antiphon"):
        read_tree(tmp_path)


def test_this_tree_has_all_rows_but_that_of_rooms_that_it_does_not_list() -> None:
    tree = read_tree(Path(__file__).parents[2])
    found = static_rows(tree)
    assert len({row.what for row in found}) == len(found) > 20
    assert all(row.measured for row in found)


# ---- folders ---------------------------------------------------------------------------------------------------------


def test_a_folder_with_too_many_modules_is_named(tmp_path: Path) -> None:
    tree = make_tree(
        tmp_path, {f"large/m{number}.py": "" for number in range(16)} | {"large/__init__.py": "", "small/m.py": ""}
    )
    found = list(folders.rows(tree))
    assert row(found, "largest folder").measured == "16 (`large`)"
    assert row(found, "folders over 15").names == ("large: 16",)


def test_fifteen_modules_and_an_init_are_not_too_many(tmp_path: Path) -> None:
    tree = make_tree(tmp_path, {f"large/m{number}.py": "" for number in range(15)} | {"large/__init__.py": ""})
    assert row(list(folders.rows(tree)), "folders over 15").measured == "0"


def test_modules_at_the_root_do_not_include_the_package_itself(tmp_path: Path) -> None:
    tree = make_tree(tmp_path, {"errors.py": "", "__main__.py": "", "wire/items.py": ""})
    assert row(list(folders.rows(tree)), "at the root").names == ("__main__.py", "errors.py")


def test_a_module_of_one_definition_and_a_small_one_are_counted(tmp_path: Path) -> None:
    two = "def one(): ...\ndef two(): ...\n" + "x = 1\n" * 60
    one = "X = 1\nclass One:\n    def a(self): ...\n    def b(self): ...\n"
    tree = make_tree(tmp_path, {"two.py": two, "one.py": one})
    found = list(folders.rows(tree))
    assert row(found, "one definition").names == ("one.py",)
    assert row(found, "under 60 lines").names == ("one.py",)
    assert row(found, "files of src").measured == "3"
    assert row(found, "lines of src").measured == "67"


# ---- functions and classes -------------------------------------------------------------------------------------------


def test_a_function_is_as_long_as_its_text_without_decorators(tmp_path: Path) -> None:
    body = "    pass\n" * 40
    tree = make_tree(tmp_path, {"m.py": f"@cache\ndef long():\n{body}\n\nasync def fits():\n{body[9:]}"})
    assert sorted(functions.function_lines(tree)) == [(40, "m.py:fits"), (41, "m.py:long")]
    assert row(list(functions.rows(tree)), "over 40").names == ("m.py:long: 41",)


CLASS = """
class Example(Base):
    shared: ClassVar[int] = 1
    field: int
    constant = 2
    __slots__ = ("slot", "assigned")

    def __init__(self, other):
        self.assigned = self.second = 1
        self.left, (self.right, other.foreign) = 1, (2, 3)
        self.annotated: int = 3
        self.counted += 1
        print(self.only_read)
        with open("x") as self.opened:
            for self.each in ():
                pass

    def renamed(this):
        this.own = 1

    @classmethod
    def make(cls):
        cls.of_the_class = 1

    @staticmethod
    def none(self):
        self.not_ours = 1
"""


def test_attributes_are_what_instances_are_given() -> None:
    node = ast.parse(CLASS).body[0]
    assert isinstance(node, ast.ClassDef)
    given = "field slot assigned second left right annotated counted opened each own".split()
    assert classes.attributes(node) == set(given)


@pytest.mark.parametrize(("count", "method", "large"), [(21, True, True), (20, True, False), (21, False, False)])
def test_a_class_is_too_large_with_methods_and_over_20_attributes(
    tmp_path: Path, count: int, method: bool, large: bool
) -> None:
    lines = [f"    x{number}: int" for number in range(count)] + ["    def get(self): ..."] * method
    tree = make_tree(tmp_path, {"m.py": "class Large:\n" + "\n".join(lines)})
    assert list(classes.large_classes(tree)) == ([("m.py:Large", count)] if large else [])


# ---- imports ---------------------------------------------------------------------------------------------------------

MODULES = {
    "errors.py": "",
    "wire/items.py": "from antiphon import errors\n",
    "core/events/numbers.py": "import antiphon.wire.items\nfrom antiphon.core.prompt import draft\n",
    "core/prompt/draft.py": "from ..events.numbers import number\nfrom antiphon.wire import items\n",
    "store/__init__.py": "from antiphon.server import routes\n",
    "store/memory.py": "def later():\n    from antiphon.server.routes import route\n",
    "server/routes.py": "from antiphon.store.memory import later\nimport json\n",
    "elsewhere.py": "from antiphon.server import routes\n",
}
WRONG = ["core/events/numbers.py imports core.prompt.draft", "store/memory.py imports server.routes"]


@pytest.mark.parametrize(
    "table",
    [
        'ORDER = ["errors.py", "wire", "core/events", "core/prompt", "store", "server", "store/__init__.py"]',
        'ORDER = """errors.py wire\ncore/events core/prompt\nstore server store/__init__.py""".split()',
    ],
)
def test_an_import_of_a_later_room_points_the_wrong_way(tmp_path: Path, table: str) -> None:
    tree = make_tree(tmp_path, MODULES, table)
    found = row(list(rooms.rows(tree)), "wrong way")
    assert found.measured == "2"
    assert sorted(found.names) == WRONG


@pytest.mark.parametrize("architecture", ["", "OTHER = ['wire']"])
def test_without_an_order_of_rooms_there_is_no_row(tmp_path: Path, architecture: str) -> None:
    assert list(rooms.rows(make_tree(tmp_path, MODULES, architecture))) == []


# ---- names -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "written", "named"),
    [
        ('TYPE = "web_search"', True, True),
        ('TYPE = "web_search_preview"', True, True),
        ('TYPE = "web_search_call"', True, True),
        ('EVENT = "response.web_search_call.searching"', True, True),
        ('x = f"{prefix}web_search"', True, True),
        ('FIELD = "web_search_options"', False, True),
        ("class WebSearch: ...", False, True),
        ("from antiphon.tools.web_search.runner import Runner", False, True),
        ("run(web_search=True)", False, True),
        ('"""The tool web_search."""', False, False),
        ('raise ValueError("web_search is off")', False, False),
        ("# web_search", False, False),
        ('NAME = "cobweb_searcher"', False, False),
    ],
)
def test_a_hosted_tool_is_written_or_named(text: str, written: bool, named: bool) -> None:
    names = hosted_tools.names_of(make_module(text))
    assert (hosted_tools.writes(names, "web_search"), hosted_tools.mentions(names, "web_search")) == (written, named)


def test_the_shapes_of_items_may_name_any_tool_and_a_tool_that_is_not_there_has_no_row(tmp_path: Path) -> None:
    tree = make_tree(tmp_path, {"wire/items.py": 'x = "mcp", "shell"', "core/hosted.py": 'x = "mcp"'})
    written = [row for row in hosted_tools.rows(tree) if "write" in row.what]
    assert [(row.what, row.names) for row in written] == [("modules that write the type `mcp`", ("core/hosted.py",))]


LIBRARY = frozenset({"_body", "_headers", "_messages", "_serialize", "_own"})


@pytest.mark.parametrize(
    ("text", "used"),
    [
        ("from aiohttp import web\nprint(response._body)", {"_body"}),
        ("import aiohttp\nresponse._headers = 1", {"_headers"}),
        ("from aiohttp.http_writer import _serialize as serialize", {"_serialize"}),
        ('import aiohttp\ngetattr(socket, "_messages", None)', {"_messages"}),
        ("import aiohttp\nprint(self._body, other._unknown)", set()),
        ("print(response._body)", set()),
        (
            "from aiohttp import web\nclass Own(web.Response):\n    def f(self):\n        self._own = self._headers",
            {"_headers"},
        ),
        ("from aiohttp import web\nclass Own(Base):\n    def f(self):\n        return self._headers", set()),
    ],
)
def test_a_private_name_of_aiohttp_is_found(text: str, used: set[str]) -> None:
    assert aiohttp_names.private_names(make_module(text), LIBRARY) == used


def test_the_installed_aiohttp_has_private_names() -> None:
    assert "_payload_writer" in aiohttp_names.library_names()
    assert "_replace" not in aiohttp_names.library_names()


def test_names_for_a_json_object_are_counted_at_the_top_level(tmp_path: Path) -> None:
    text = """
        Item = dict[str, Any]
        Part: TypeAlias = Mapping[str, object]
        Names = dict[str, str]
        items: dict[str, Any] = {}
        def function():
            Local = dict[str, Any]
    """
    tree = make_tree(tmp_path, {"a.py": dedent(text), "b.py": "Item = dict[str, Any]"})
    assert list(aliases.object_aliases(tree)) == [("a.py", "Item"), ("a.py", "Part"), ("b.py", "Item")]
    assert row(list(aliases.rows(tree)), "`Item").measured == "2"


def test_a_tree_without_such_names_has_none(tmp_path: Path) -> None:
    tree: Tree = make_tree(tmp_path, {"a.py": ""})
    assert [row.measured for row in aliases.rows(tree)] == ["0", "0"]
    assert [row.measured for row in aiohttp_names.rows(tree)] == ["0", "0"]
