# SPDX-License-Identifier: Apache-2.0
"""What can be asked of the server, and what it can be sent."""
