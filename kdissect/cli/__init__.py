"""The command line: one file a command. Importing it imports nothing heavy."""


def main() -> int:
    """Run the command line on sys.argv; gives the exit code."""
    from kdissect.cli.program import run

    return run()
