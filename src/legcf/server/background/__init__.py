# SPDX-License-Identifier: Apache-2.0
"""Do long work beside the event loop."""
