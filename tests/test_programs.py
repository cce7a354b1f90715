"""What happens to tests whose programs are not there."""

import pytest
from conftest import reason_of
from support.programs import Missing, found_or_installed, leave_out


def test_without_a_program_a_test_is_left_out_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CI", raising=False)
    with pytest.raises(pytest.skip.Exception, match="no bwrap"):
        leave_out("no bwrap")


def test_in_ci_it_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="no bwrap"):
        leave_out("no bwrap")


def test_what_is_there_is_not_installed() -> None:
    assert found_or_installed(lambda: "/usr/bin/true", "no-such-package") == "/usr/bin/true"


def test_what_cannot_be_installed_is_named_with_the_command_that_would(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(Missing, match="apt-get install no-such-package"):
        found_or_installed(lambda: None, "no-such-package")


def test_the_reasons_are_listed_at_the_end_of_a_run() -> None:
    report = pytest.TestReport("a", ("a", 1, ""), {}, "skipped", ("a.py", 1, "Skipped: no bwrap"), "setup")
    assert reason_of(report) == "no bwrap"
