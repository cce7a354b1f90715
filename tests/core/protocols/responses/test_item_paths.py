from antiphon.core.protocols.responses.references import item_path, item_paths


def test_the_paths_of_all_items_are_those_of_each() -> None:
    for count, earlier in ((0, 0), (3, 0), (3, 2), (3, 3), (3, 5)):
        assert item_paths(count, earlier, "items") == [item_path(at, earlier, "items") for at in range(count)]
