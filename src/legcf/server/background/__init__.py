# SPDX-License-Identifier: Apache-2.0
"""Long work beside the event loop."""
