# SPDX-License-Identifier: Apache-2.0
pytest_plugins = ["tests.fixtures", "tests.served"]
