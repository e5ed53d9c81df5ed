# SPDX-License-Identifier: Apache-2.0
"""`python -m legcf` is the `legcf` command."""

from legcf.cli.app import main

main()
