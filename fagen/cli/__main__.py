"""`python -m fagen.cli`, for where the console script is not on PATH."""

from fagen.cli import main

main()
