# SPDX-License-Identifier: Apache-2.0
"""Answer what the server can be asked, and take what it can be sent."""
