"""The command line, called within the process of the tests."""

from click.testing import CliRunner

from harness.cli import main


def kraftprobe(*arguments, **settings):
    """Run a command and return what click's runner saw: exit code, stdout, stderr."""
    runner = CliRunner(**settings)
    return runner.invoke(main, [str(each) for each in arguments], prog_name="kraftprobe")
